// Package bundle carries commits between the machines of a fleet as git bundles,
// and lets nothing in that it has not checked.
package bundle
