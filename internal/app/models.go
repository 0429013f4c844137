package app

import (
	"encoding/json"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// keptModels is the file with the models of the account that was asked last.
const keptModels = "models.json"

// KeepModels keeps a list of models for KeptModels.
func KeepModels(c *config.Config, models []bridge.Model) error {
	data, err := json.Marshal(models)
	if err != nil {
		return err
	}
	return durable.WriteFile(c.Path(keptModels), data, 0o600)
}

// KeptModels is the list that was kept last. Nothing is started for it.
func KeptModels(c *config.Config) (models []bridge.Model, err error) {
	data, err := durable.ReadFile(c.Path(keptModels))
	if err == nil {
		err = json.Unmarshal(data, &models)
	}
	return models, err
}
