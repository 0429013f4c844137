package redact

import (
	"math"
	"strings"
	"sync"
)

// spread reports whether a token's body has some variety. A run of x or 0 is
// a placeholder.
func spread(s string) bool {
	var seen [256]bool
	distinct := 0
	for i := range len(s) {
		if !seen[s[i]] {
			seen[s[i]] = true
			distinct++
		}
	}
	return distinct >= min(6, len(s)/2)
}

// varied is spread, and more than letters of one case.
func varied(s string) bool {
	c := count(s)
	return spread(s) && (c.digit > 0 || c.upper > 0 && c.lower > 0)
}

// random is varied, and not made of words. It is for bodies that may hold
// separators and follow a prefix that is not rare in ordinary text.
func random(s string) bool { return varied(s) && !wordy(s) }

// issued is for prefixes that are enough by themselves: what follows may also be
// one run of letters, as in an invented token.
func issued(s string) bool {
	return random(s) || len(s) >= 16 && plainWord(s) && spread(s) && !placeholder(s)
}

type counts struct{ lower, upper, digit, other int }

func (c counts) letters() int { return c.lower + c.upper }

func count(s string) counts {
	var c counts
	for i := range len(s) {
		switch b := s[i]; {
		case isLower(b):
			c.lower++
		case isUpper(b):
			c.upper++
		case isDigit(b):
			c.digit++
		default:
			c.other++
		}
	}
	return c
}

// entropy is the Shannon entropy of s in bits a byte.
func entropy(s string) float64 {
	var n [256]int
	for i := range len(s) {
		n[s[i]]++
	}
	sum := 0.0
	for _, k := range n {
		if k > 1 {
			sum += float64(k) * math.Log2(float64(k))
		}
	}
	return math.Log2(float64(len(s))) - sum/float64(len(s))
}

// generated reports whether s looks like the output of a generator of keys.
func generated(s string) bool {
	c := count(s)
	mixed := c.digit > 0 && c.letters() > 0 || c.upper > 3 && c.lower > 3
	return len(s) >= 16 && mixed && entropy(s) >= 2.8 && !wordy(s)
}

// wordy reports whether s is made of words: identifiers, file names, media
// types, and so on. A word may begin or end with a short number, as in utf8,
// a short number may stand alone, and so may abbreviations like e2e as long
// as there are more words than abbreviations.
func wordy(s string) bool {
	words, short := 0, 0
	for start := 0; start < len(s); {
		if !alnum[s[start]] {
			start++
			continue
		}
		end := start
		for end < len(s) && alnum[s[end]] {
			end++
		}
		part := s[start:end]
		start = end
		bare := part
		for bare != "" && isDigit(bare[0]) {
			bare = bare[1:]
		}
		for bare != "" && isDigit(bare[len(bare)-1]) {
			bare = bare[:len(bare)-1]
		}
		switch {
		case len(part)-len(bare) <= 4 && (bare == "" || pronounceable(bare)):
			words += len(bare)
		case len(part) <= 4:
			short += len(part)
		default:
			return false
		}
	}
	return words >= short
}

// pronounceable reports whether letters could be a word or several in camel
// case: words of some length, with vowels, and no long row of consonants.
// Digits between letters rule it out.
func pronounceable(s string) bool {
	words, turns, row, vowels := 1, 0, 0, 0
	for i := range len(s) {
		c := s[i]
		if isDigit(c) {
			return false
		}
		if i > 0 && isUpper(c) != isUpper(s[i-1]) {
			turns++
			if isUpper(c) || i > 1 && isUpper(s[i-2]) {
				words++
			}
		}
		switch c | 0x20 {
		case 'a', 'e', 'i', 'o', 'u':
			vowels++
			row = 0
		case 'y':
			row = 0
		default:
			row++
		}
		if row > 6 && len(s) > 12 {
			return false
		}
	}
	switch {
	case vowels == 0 && len(s) > 6:
		return false
	case words > 3 && len(s) < 4*words:
		return false
	}
	return len(s) < 10 || turns*5 < len(s)*2
}

// placeholder reports whether s stands for a secret rather than being one: a
// template, a variable, a hint to the reader, a mask, or a word of the
// language it is written in. It is asked only about values that do not look
// generated.
func placeholder(s string) bool {
	inner, last := s[1:], s[len(s)-1]
	switch s[0] {
	case '$':
		if inner != "" && (inner[0] == '{' || inner[0] == '(' || identifier(inner)) {
			return true
		}
	case '%':
		if last == '%' || identifier(inner) || len(s) < 4 {
			return true
		}
	case '<', '{', '[', '(':
		if last == '>' || last == '}' || last == ']' || last == ')' || identifier(inner) {
			return true
		}
	}
	if strings.Trim(s, s[:1]) == "" { // one character again and again
		return true
	}
	if strings.IndexByte(s, '%') >= 0 && (strings.Contains(s, "%s") || strings.Contains(s, "%v") || strings.Contains(s, "%d")) {
		return true
	}
	return len(s) <= maxPlaceholderWord && placeholderWords[strings.ToLower(s)] || placeholderParts().in(s)
}

// maxPlaceholderWord is the length of the longest of placeholderWords.
const maxPlaceholderWord = 14

// identifier reports whether s is a name as most languages have them, with
// dots between names.
func identifier(s string) bool {
	start := true
	for i := range len(s) {
		c := s[i]
		if !word[c] && c != '.' || start && !isUpper(c) && !isLower(c) && c != '_' {
			return false
		}
		start = c == '.'
	}
	return !start
}

var placeholderWords = setOf(`true false null nil none undefined string str text bool boolean int integer number
	float bytes byte object array any void unknown empty default required optional hidden masked redacted secret
	secrets token tokens key keys password passwd passphrase pass pwd credentials credential value values test
	testing username user admin_password todo tbd fixme foo bar baz foobar bearer basic apikey api_key env
	environment prompt stdin file plain plaintext cleartext disabled enabled deny allow reset change forgot
	enter show hide update confirm invalid missing expired wrong incorrect repeat strong weak forgotten
	char varchar buffer text uint8array secretstr option optionnel date datetime uuid guid blob json regexp regex func function
	class struct enum interface const static public private protected readonly return async await self this super
	oauth oauth2 openid digest negotiate ntlm kerberos saml ldap sspi session cookie cookies header headers query body form
	unused jwt hmac anonymous inherit always never write read include omit same-origin login logout register manual automatic
	auto basic-auth email name auth authorization authentication access refresh client server service
	comment keyword identifier number operator punctuation symbol literal comma colon semicolon
	passwort kennwort wachtwoord contrasena senha parola heslo haslo losenord salasana passord adgangskode jelszo
	the and for from with when which that this these those then than will must should would could can cannot may might
	does have has had been before after while where unless until only also not are was were into onto upon about
	flag flags option options argument arguments parameter parameters field fields config configuration setting settings
	instead using used uses takes reads given same generated provided specified contains some your our their its
	one two both all each other another more less least most`)

// placeholderParts finds what placeholders have in them.
var placeholderParts = sync.OnceValue(func() *automaton {
	return newAutomaton([]string{"${", "{{", "...", "***", "…", "•••", "your", "example", "placeholder", "changeme", "change_me", "change-me", "replace",
		"insert", "dummy", "sample", "redacted", "xxxx", "process.env", "environ", "getenv", "secrets.", "vars.",
		"_here", "-here", "my_", "my-", "todo", "fixme", "fake"})
})

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}
