//go:build unix

package acp_test

func agentMain(string) int { return 1 }
