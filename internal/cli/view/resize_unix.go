//go:build !windows

package view

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// resized calls redraw when the terminal's size has changed, until quit.
func resized(quit <-chan struct{}, redraw func()) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH)
	defer signal.Stop(changed)
	for {
		select {
		case <-changed:
			redraw()
		case <-quit:
			return
		}
	}
}
