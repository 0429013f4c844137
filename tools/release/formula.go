package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// formula writes what Homebrew installs from: the archives of macOS and Linux.
func (r *release) formula() error {
	var b strings.Builder
	fmt.Fprintf(&b, `# Made with each release: do not edit.
class CopilotBridge < Formula
  desc "GitHub Copilot's agent runtime behind the protocols that your tools speak"
  homepage "https://github.com/copilot-bridge/copilot-bridge"
  version %q
  license "MIT"
  depends_on "node"
`, r.Version)
	for _, system := range [][2]string{{"darwin", "macos"}, {"linux", "linux"}} {
		fmt.Fprintf(&b, "\n  on_%s do\n", system[1])
		for _, arch := range [][2]string{{"arm64", "arm"}, {"amd64", "intel"}} {
			for _, a := range r.of("Archive") {
				if a.OS != system[0] || a.Arch != arch[0] {
					continue
				}
				sum, err := sha256Of(a.Path)
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, "    on_%s do\n      url \"https://github.com/copilot-bridge/copilot-bridge/releases/download/v%s/%s\"\n      sha256 %q\n    end\n",
					arch[1], r.Version, filepath.Base(a.Path), sum)
			}
		}
		b.WriteString("  end\n")
	}
	b.WriteString(`
  def install
    bin.install "copilot-bridge"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/copilot-bridge.bash" => "copilot-bridge"
    zsh_completion.install "completions/_copilot-bridge"
    fish_completion.install "completions/copilot-bridge.fish"
    pwsh_completion.install "completions/copilot-bridge.ps1" => "_copilot-bridge.ps1"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/copilot-bridge --version")
  end
end
`)
	return r.write("copilot-bridge.rb", []byte(b.String()))
}
