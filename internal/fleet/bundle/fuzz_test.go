package bundle

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Whatever comes, it is read within bounds or refused.
func FuzzOutside(f *testing.F) {
	commit := strings.Repeat("1", 40)
	head := "# v2 git bundle\n-" + strings.Repeat("2", 40) + " x\n" + commit + " " + Ref("claim") + "\n\n"
	pack := "PACK\x00\x00\x00\x02\x00\x00\x00\x01\x31x\x9c\xabP\x00\x00\x00\x79\x00\x79" + strings.Repeat("h", 20)
	f.Add([]byte(head + pack))
	f.Add([]byte(strings.Replace(head, "-", "--", 1)))
	f.Add([]byte(head + strings.Replace(pack, "\x31", "\xe1\x01\x01", 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "bundle")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		opened, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		begin, err := readHeader(opened, Expect{Name: "claim", Commit: commit})
		if err != nil && bridge.CodeOf(err) != bridge.CodeDenied || begin > int64(len(data)) {
			t.Fatal(begin, err)
		}
		const most = 1 << 20
		stats, err := measure(bytes.NewReader(data[begin:]), int64(len(data))-begin, commit, limits{objects: 1000, object: most, unpacked: most})
		if err != nil && bridge.CodeOf(err) != bridge.CodeDenied || stats.unpacked > most || stats.unpacked < 0 {
			t.Fatal(stats, err)
		}
	})
}
