package policy

// openFlags is for systems with named pipes in directories; Windows has none.
// Untried on Windows.
const openFlags = 0
