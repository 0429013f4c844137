package copilotruntime

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

func TestPlatformName(t *testing.T) {
	tests := []struct {
		goos, goarch string
		musl         bool
		want         string
	}{
		{"linux", "amd64", false, "linux-x64"},
		{"linux", "amd64", true, "linuxmusl-x64"},
		{"linux", "arm64", false, "linux-arm64"},
		{"linux", "arm64", true, "linuxmusl-arm64"},
		{"darwin", "amd64", false, "darwin-x64"},
		{"darwin", "arm64", false, "darwin-arm64"},
		{"windows", "amd64", false, "win32-x64"},
		{"windows", "arm64", false, "win32-arm64"},
		{"linux", "386", false, ""},
		{"freebsd", "amd64", false, ""},
	}
	for _, test := range tests {
		if got := platformName(test.goos, test.goarch, test.musl); got != test.want {
			t.Errorf("%s/%s, musl %t: got %q, want %q", test.goos, test.goarch, test.musl, got, test.want)
		}
	}
}

func TestIsMusl(t *testing.T) {
	const muslLoader, glibcLoader = "/lib/ld-musl-x86_64.so.1", "/lib64/ld-linux-x86-64.so.2"
	tests := []struct {
		name    string
		shell   []byte // nil: none
		loaders []string
		want    bool
	}{
		{"Alpine", elfWithLoader(t, muslLoader), []string{muslLoader}, true},
		{"Alpine with glibc's loader", elfWithLoader(t, muslLoader), []string{muslLoader, glibcLoader}, true},
		{"Debian", elfWithLoader(t, glibcLoader), []string{glibcLoader}, false},
		{"Debian with musl's loader", elfWithLoader(t, glibcLoader), []string{muslLoader, glibcLoader}, false},
		{"static shell, musl", elfWithLoader(t, ""), []string{muslLoader}, true},
		{"static shell, both", elfWithLoader(t, ""), []string{muslLoader, glibcLoader}, false},
		{"shell is no program", []byte("#!/bin/other"), []string{muslLoader}, true},
		{"no shell, musl", nil, []string{muslLoader}, true},
		{"no shell, glibc", nil, []string{glibcLoader}, false},
		{"nothing", nil, nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			put := func(name string, data []byte) {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, data, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if test.shell != nil {
				put("bin/sh", test.shell)
			}
			for _, loader := range test.loaders {
				put(loader, nil)
			}
			if got := isMusl(root); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// elfWithLoader is the smallest ELF file that asks for a loader.
func elfWithLoader(t *testing.T, loader string) []byte {
	t.Helper()
	const headerSize, segmentSize = 64, 56
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: headerSize, Ehsize: headerSize, Phentsize: segmentSize,
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS] = byte(elf.ELFCLASS64)
	header.Ident[elf.EI_DATA] = byte(elf.ELFDATA2LSB)
	header.Ident[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	parts := []any{&header}
	if loader != "" {
		header.Phnum = 1
		name := append([]byte(loader), 0)
		parts = append(parts, &elf.Prog64{
			Type: uint32(elf.PT_INTERP), Off: headerSize + segmentSize, Filesz: uint64(len(name)), Memsz: uint64(len(name)),
		}, name)
	}
	var out bytes.Buffer
	for _, part := range parts {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}
