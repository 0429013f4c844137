package redact

import (
	"slices"
	"strings"
)

// kind is what a name says about the value that is stored under it.
type kind int

const (
	kindNone     kind = iota
	kindPassword      // chosen by people, so nearly anything may be one
	kindSecret        // a secret or a key to an interface: chosen or issued
	kindToken         // the same, but the word has other meanings
	kindKey           // only what looks generated
	kindAuth          // an Authorization header
	kindCookie        // a Cookie header
)

// keyWords are what the names of secrets have in common. The automaton looks
// for them; classify then judges the whole name.
var keyWords = strings.Fields("pass pwd secret token key cred auth bearer cookie _pat -pat")

// vendors issue tokens that have no form of their own. Whatever is stored
// under a name with theirs in it, and looks generated, is taken for one.
var vendors = strings.Fields(`adafruit adobe airtable algolia alibaba asana atlassian beamer bitbucket bittrex
	cloudflare codecov cohere coinbase confluent contentful datadog discord droneci dropbox etsy facebook fastly
	finicity finnhub flickr freshbooks gitter heroku hubspot intercom jfrog jira kraken kucoin launchdarkly linkedin
	looker mailchimp mailgun mapbox mattermost maxmind meraki messagebird netlify newrelic relic nytimes okta
	plaid privateai rapidapi sendbird sentry snyk sonar squarespace sumologic telegram travis twilio twitch twitter
	typeform yandex zendesk`)

var vendorSet = setOf(strings.Join(vendors, " "))

type namedKind struct {
	name string
	kind kind
}

// kindOf is classify, remembering the last answers.
func (sc *scan) kindOf(name string) kind {
	for _, n := range sc.names {
		if n.name == name {
			return n.kind
		}
	}
	copy(sc.names[1:], sc.names[:])
	sc.names[0] = namedKind{name, classify(name)}
	return sc.names[0].kind
}

// classify judges a name such as DB_PASSWORD, accessToken or "api key" by its
// last words.
func classify(name string) kind {
	words := splitName(name)
	for len(words) > 1 && tailWords[words[len(words)-1]] {
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return kindNone
	}
	last, before := words[len(words)-1], ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	switch {
	case strings.HasSuffix(last, "password"), strings.HasSuffix(last, "passwd"), strings.HasSuffix(last, "passphrase"),
		strings.HasSuffix(last, "pwd"), last == "pass", last == "passcode", passWords[last]:
		return kindPassword
	case last == "word" && before == "pass", last == "phrase" && before == "pass":
		return kindPassword
	case strings.HasSuffix(last, "secret"), last == "credential", last == "bearer":
		return kindSecret
	case strings.HasSuffix(last, "token"):
		if notSecretToken[before] {
			return kindNone
		}
		return kindToken
	case last == "key":
		if k := keyKinds[before]; k != kindNone {
			return k
		}
	case strings.HasSuffix(last, "key"):
		stem := strings.TrimSuffix(last, "key")
		for n := 2; n <= min(len(stem), 12); n++ {
			if k := keyKinds[stem[len(stem)-n:]]; k != kindNone {
				return k
			}
		}
	case last == "authorization", last == "auth":
		return kindAuth
	case last == "cookie":
		return kindCookie
	case last == "credentials", last == "creds", last == "secrets",
		last == "pat" && before != "", last == "id" && before == "secret":
		return kindKey
	}
	if !publicWords[last] && slices.ContainsFunc(words, func(w string) bool { return vendorSet[w] }) {
		return kindKey
	}
	return kindNone
}

// splitName splits a name into its words in lower case, at everything that is
// not a letter or digit and at the humps of camel case. Numbers at the end of
// a word are left out.
func splitName(name string) []string {
	words := make([]string, 0, 4)
	start := 0
	flush := func(end int) {
		for end > start && isDigit(name[end-1]) {
			end--
		}
		if start < end {
			words = append(words, strings.ToLower(name[start:end]))
		}
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case !alnum[c]:
			flush(i)
			start = i + 1
		case i > start && isUpper(c) && (isLower(name[i-1]) || i+1 < len(name) && isUpper(name[i-1]) && isLower(name[i+1])):
			flush(i)
			start = i
		}
	}
	flush(len(name))
	return words
}

// tailWords may follow the word that matters.
var tailWords = setOf(`prod production dev development stage staging live test testing value val str string text plain
	raw new old current b64 base64 default primary secondary main local global`)

var passWords = setOf("storepass keypass bindpass authpass dbpass dbpw smtppass userpass rootpass ftppass mysqlpass pgpass adminpass sshpass passwort")

// notSecretToken are words before token that make it something else: a place
// in a list, or a part of a text.
var notSecretToken = setOf(`next prev previous page nextpage continuation continue cancel cancellation sync max min num
	total prompt completion input output cached stop start end eof pad unk bos eos sep cls mask special first last
	lookahead lookbehind syntax lexer operator punctuation change resume progress done result design cursor parent child current peek expected
	unexpected pagination starting idempotency request creation purchase lock`)

// keyKinds are words before key that make it a secret one, whatever it looks
// like or if it looks generated.
var keyKinds = func() map[string]kind {
	kinds := map[string]kind{}
	for w := range keyQualifiers {
		kinds[w] = kindKey
	}
	for w := range strings.FieldsSeq("api access secret private encryption signing master stripe openai anthropic") {
		kinds[w] = kindSecret
	}
	return kinds
}()

var keyQualifiers = setOf(`api access secret private encryption signing sign master license licence account shared
	auth service deploy storage admin session app application client webhook crypt cipher hmac jwt ssh root
	integration ingest ingestion write subscription rest project sas consumer customer developer dev user org team
	environment bot server publishable hash rapidapi maps google functions function host
	management instrumentation security symmetric data aes des rsa ec pgp gpg wallet mnemonic site merchant
	partner gateway interface`)

// publicWords end names of a vendor's that hold nothing secret.
var publicWords = setOf(`id ids url uri href host hostname domain endpoint name user username email org organization
	project region zone version path file dir port team account app site bucket namespace image digest sha sha1
	sha256 sha512 md5 commit hash ref branch tag integrity resolved checksum revision rev build release slug
	title description fingerprint etag public`)
