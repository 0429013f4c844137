package editor

// Bound sets how much of an answer may wait for its reader.
func (c *Conn) Bound(unread int) { c.unread = unread }
