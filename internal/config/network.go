package config

import (
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// A URL with any of these may hold a secret in its user, query or fragment, or
// be a failed attempt at one.
const secretive = "@?#"

const userInURL = "must not contain a user name or password, which would show up in logs"

// httpURL is a base that paths are appended to. Queries are refused with the
// same reason as users: keys are put there, and a base URL is shown and logged.
func httpURL(field *string) kind {
	return into(field, "an http or https URL with a host and without user, query or fragment", func(s string, _ place) (string, error) {
		u, err := parseURL(s)
		if err == nil && u.Scheme != "http" && u.Scheme != "https" {
			err = notAURL(s)
		}
		return strings.TrimRight(s, "/"), err
	})
}

func tcpURL(field *string) kind {
	return into(field, "a URL of the form tcp://host:port", func(s string, _ place) (string, error) {
		u, err := parseURL(s)
		switch {
		case err != nil:
			return "", err
		case u.Scheme != "tcp" || u.Port() == "" || strings.Trim(u.Path, "/") != "":
			return "", notAURL(s)
		}
		return "tcp://" + u.Host, nil
	})
}

// parseURL checks what all URLs have in common.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		// The parser's own text quotes the URL.
		return nil, notAURL(s)
	}
	if u.User != nil {
		return nil, &refusal{text: userInURL, hide: true}
	}
	if u.Hostname() == "" || strings.HasSuffix(u.Host, ":") || strings.ContainsAny(s, "?#") {
		return nil, notAURL(s)
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, notAURL(s)
		}
	}
	return u, nil
}

func notAURL(s string) error { return &refusal{hide: strings.ContainsAny(s, secretive)} }

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$`)

func host(field *string) kind {
	return into(field, "a host name or IP address, without scheme or port", func(s string, _ place) (string, error) {
		bare := s
		if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
			bare = s[1 : len(s)-1]
		}
		if _, err := netip.ParseAddr(bare); err == nil {
			return bare, nil
		}
		if !hostName.MatchString(s) {
			return "", notAURL(s)
		}
		return s, nil
	})
}
