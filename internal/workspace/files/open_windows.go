package files

import "os"

// openFlags: there are no FIFOs in a Windows file system. Untried.
const openFlags = os.O_RDONLY
