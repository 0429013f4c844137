// Package paths says where a path really points. It resolves every path that
// a tool call mentions, links and all, against one workspace, and finds the
// paths in a tool's arguments in the first place. The guard calls it before a
// tool runs; the bridge's own file operations use the os.Root it opens.
//
// It does not know any policy: whether a path inside the workspace may be
// read or written is decided by others.
//
// Two kinds of access, two promises. What the bridge does itself goes through
// Workspace.FS, where the operating system keeps every step below the root, so
// a link that is swapped at the wrong moment cannot lead outside. What the
// runtime's own tools do is checked before they do it; between the check and
// the use somebody else may change the tree, and nothing here can close that
// window. Hard links and mount points that exist inside the workspace are part
// of the workspace.
package paths
