//go:build !race

package orchestrate

const kills = 50
