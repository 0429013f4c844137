//go:build unix

package bundle

import "os"

const childFile = "BUNDLE_TEST_CHILD"

func receiveUntilKilled(string) { os.Exit(1) }
