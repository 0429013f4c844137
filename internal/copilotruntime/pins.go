package copilotruntime

import (
	"context"
	"embed"
	"path"
	"strings"
)

// What this program is built and tested against. Changing a version means
// running lock/update.sh; a test holds the two together.
const (
	RuntimeVersion = "1.0.14"  // of the npm package @github/copilot-sdk-<platform>
	CLIVersion     = "1.0.102" // of the npm package @github/copilot-<platform>
	Protocol       = 3         // what the Go SDK speaks
)

// runtimeLibrary stands beside the native runtime's program.
const runtimeLibrary = "runtime.node"

// locks holds, for each product and platform whose package could be fetched
// when the pins were set, what `npm ci` needs to install exactly that package
// and to refuse any other content. It holds no addresses, so a registry of
// the user's own works.
//
//go:embed lock/runtime lock/cli
var locks embed.FS

// product is one of the two things this package finds and installs.
type product struct {
	title      string // for people
	folder     string // under the bridge's home, and under lock/
	npmName    string // without the platform
	version    string
	setup      string // the command that installs it
	usesNative bool   // whether the native runtime will do

	// program and needs are slash-separated paths inside the npm package.
	program func(platform string) string
	needs   func(platform string) []string

	// sizes is how much a finished install weighs, for progress only. A
	// platform that is not in it was never measured.
	sizes map[string]int64

	// verify starts the program and returns the version it reports.
	verify func(ctx context.Context, program string) (string, error)
}

func runtimeProduct() product {
	prebuilt := func(platform, file string) string { return path.Join("prebuilds", platform, file) }
	return product{
		title:      "Copilot runtime",
		folder:     "runtime",
		npmName:    "@github/copilot-sdk",
		version:    RuntimeVersion,
		setup:      "copilot-bridge setup",
		usesNative: true,
		program:    func(p string) string { return prebuilt(p, "copilot-runtime"+exeSuffix(p)) },
		needs:      func(p string) []string { return []string{prebuilt(p, runtimeLibrary)} },
		sizes:      map[string]int64{"linux-x64": 117_731_000, "linuxmusl-x64": 131_184_000},
		verify: func(ctx context.Context, program string) (string, error) {
			status, err := Check(ctx, program)
			return status.Version, err
		},
	}
}

func cliProduct() product {
	return product{
		title:   "Copilot CLI",
		folder:  "cli",
		npmName: "@github/copilot",
		version: CLIVersion,
		setup:   "copilot-bridge setup --acp",
		program: func(p string) string { return "copilot" + exeSuffix(p) },
		needs:   func(string) []string { return nil },
		sizes: map[string]int64{
			"linux-x64":     197_467_000,
			"linuxmusl-x64": 196_262_000,
			"darwin-arm64":  180_700_000,
			"win32-x64":     171_400_000,
		},
		verify: cliVersion,
	}
}

func exeSuffix(platform string) string {
	if strings.HasPrefix(platform, "win32-") {
		return ".exe"
	}
	return ""
}
