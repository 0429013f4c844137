package view

// resized does nothing: what is drawn next has the new size. Untried.
func resized(<-chan struct{}, func()) {}
