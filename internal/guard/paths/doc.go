// Package paths finds the paths in a tool's arguments, follows all links on
// them, and says whether they lie inside one workspace. It knows no policy:
// whether a path inside the workspace may be read or written is decided by
// others. The guard calls it before a tool runs and reads files through the
// os.Root that it opens.
package paths
