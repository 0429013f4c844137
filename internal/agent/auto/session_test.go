package auto

import "github.com/copilot-bridge/copilot-bridge/internal/engine"

// What the engine may ask of a session must reach it.
var _ interface {
	engine.Resetter
	engine.Steerer
	engine.Commander
	engine.Remover
	engine.Dater
	engine.Sharer
} = (*ableSession)(nil)
