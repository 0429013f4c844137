// Package worker does tasks for a fleet: it takes tickets, claims tasks, has them
// done and delivers the results.
package worker
