package hub

// BoundConnections is what the hub does every few seconds, with another bound.
func (h *Hub) BoundConnections(most int) { h.keeper.boundConnections(most) }
