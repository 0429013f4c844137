package orchestrate

const victimHome = "ORCHESTRATE_TEST_HOME"

func victim() error { return nil }
