// Package coordinator hands the tasks of a run to the workers of a fleet, takes
// one result for each, and keeps the run's record where another machine can go on
// with it.
package coordinator
