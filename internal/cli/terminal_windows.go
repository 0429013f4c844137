package cli

import "os"

const terminalFile = "CONIN$"

// drain does nothing here: what was typed ahead is read. Untried.
func drain(*os.File) {}
