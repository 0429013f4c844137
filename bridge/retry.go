package bridge

import (
	"net/http"
	"strings"
)

// Class sorts errors by what may be done about them.
type Class int

const (
	ClassFatal     Class = iota // give up
	ClassRateLimit              // wait as long as asked, then try again
	ClassTransient              // try again, a few times
	ClassMissing                // a file is not there: go on without it
)

// Classify sorts an error by its code and status.
func Classify(err error) Class {
	e := AsError(err)
	if e == nil {
		return ClassFatal
	}
	switch e.Code {
	case CodeRateLimited:
		return ClassRateLimit
	case CodeBusy, CodeCrashed:
		return ClassTransient
	case CodeProvider:
		if e.Status == 0 || e.Status == http.StatusRequestTimeout || e.Status >= http.StatusInternalServerError {
			return ClassTransient
		}
	default:
	}
	return ClassFatal
}

// Outage reports whether an error means that Copilot cannot be had: there is no
// login, or Copilot or the model's provider does not answer, refuses the key or
// fails by itself. An error that only one request causes is not an outage.
func Outage(e *Error) bool {
	switch e.Code {
	case CodeUnavailable, CodeUnauthenticated:
		return true
	case CodeProvider:
		return e.Status == 0 || e.Status >= http.StatusInternalServerError
	default:
		return false
	}
}

// ClassifyText sorts an error of which only the text is known.
func ClassifyText(text string) Class {
	t := strings.ToLower(text)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(t, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("rate limit", "rate_limit", "ratelimit", "too many requests", "429"):
		return ClassRateLimit
	case has("no such file", "enoent", "file not found", "does not exist"):
		return ClassMissing
	case has("timeout", "timed out", "econnreset", "connection reset", "econnrefused", "connection refused",
		"unexpected eof", "socket hang up", "temporarily unavailable", "502", "503", "504", "overloaded"):
		return ClassTransient
	}
	return ClassFatal
}

// Retries is how often an error of this class may be tried again, given the
// configured cap.
func (c Class) Retries(limit int) int {
	switch c {
	case ClassRateLimit:
		return limit
	case ClassTransient:
		return min(2, limit)
	case ClassMissing, ClassFatal:
	}
	return 0
}

// Recovery is the class in the words of a Gate. attempt counts the tries that
// have failed.
func (c Class) Recovery(attempt, limit int) Recovery {
	switch c {
	case ClassMissing:
		return RecoverSkip
	case ClassRateLimit, ClassTransient:
		if attempt <= c.Retries(limit) {
			return RecoverRetry
		}
	case ClassFatal:
	}
	return RecoverAbort
}
