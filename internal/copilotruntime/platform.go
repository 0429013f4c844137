package copilotruntime

import (
	"debug/elf"
	"io"
	"path/filepath"
	"runtime"
	"strings"
)

// hostPlatform is this machine's platform in the words of npm's package
// names, or "" if Copilot is not made for it.
//
// linux-x64 is tried; the rest of the table is written after the SDK's own
// naming and untried.
func hostPlatform() string {
	musl := runtime.GOOS == "linux" && isMusl("/")
	return platformName(runtime.GOOS, runtime.GOARCH, musl)
}

func platformName(goos, goarch string, musl bool) string {
	system := map[string]string{"linux": "linux", "darwin": "darwin", "windows": "win32"}[goos]
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[goarch]
	if system == "" || arch == "" {
		return ""
	}
	if system == "linux" && musl {
		system = "linuxmusl"
	}
	return system + "-" + arch
}

// isMusl reports whether the Linux system under root is built on musl. The
// loader that the shell asks for decides: a glibc system may well have musl's
// loader too, and the other way round. Only where the shell is static, or not
// readable, do the loaders that are there decide.
func isMusl(root string) bool {
	if loader := interpreter(filepath.Join(root, "bin", "sh")); loader != "" {
		return strings.Contains(filepath.Base(loader), "ld-musl-")
	}
	exists := func(pattern string) bool {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		return err == nil && len(found) > 0
	}
	return exists("lib/ld-musl-*.so.1") && !exists("lib*/ld-linux*.so.*")
}

// interpreter returns the loader that the ELF program at path asks for, or "".
func interpreter(path string) string {
	file, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // only read from
	for _, segment := range file.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		name, err := io.ReadAll(io.LimitReader(segment.Open(), 4096))
		if err != nil {
			return ""
		}
		return strings.TrimRight(string(name), "\x00")
	}
	return ""
}
