package upkeep

import "io/fs"

// ownFile is true: each user has a separate directory for temporary files.
func ownFile(fs.FileInfo) bool { return true }
