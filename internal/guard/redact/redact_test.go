package redact

import (
	"strings"
	"sync"
	"testing"
)

const (
	ghToken  = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	patToken = "github_pat_11ABCDEFG0abcdefghijkl_MNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrstuvwxyz01234567"
	awsID    = "AKIAIOSFODNN7EXAMPLE"
	awsKey   = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	skToken  = "sk-proj-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZg"
	jwt      = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)

func TestString(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"github", "token " + ghToken + " ok", "token [REDACTED] ok"},
		{"github fine-grained", patToken, "[REDACTED]"},
		{"after an underscore", "MY_" + ghToken, "MY_[REDACTED]"},
		{"not in a word", "x" + ghToken, "x" + ghToken},
		{"aws id", "id=" + awsID + ";", "id=[REDACTED];"},
		{"aws key", "aws_secret_access_key = " + awsKey + "\n", "aws_secret_access_key = [REDACTED]\n"},
		{"openai", "OPENAI_API_KEY=" + skToken, "OPENAI_API_KEY=[REDACTED]"},
		{"jwt", "see " + jwt + ".", "see [REDACTED]"},
		{"bearer", "Authorization: Bearer abcDEF123456ghi", "Authorization: Bearer [REDACTED]"},
		{"basic", "Authorization: Basic dXNlcjpodW50ZXIy", "Authorization: Basic [REDACTED]"},
		{"password", "password=hunter2", "password=[REDACTED]"},
		{"password in quotes", `password = "correct-horse1"`, `password = "[REDACTED]"`},
		{"passphrase", `passphrase: "correct horse battery staple"`, `passphrase: "[REDACTED]"`},
		{"prefix and case", "Db_PassWord: s3cr3t!x", "Db_PassWord: [REDACTED]"},
		{"json", `{"password":"hunter2","n":1}`, `{"password":"[REDACTED]","n":1}`},
		{"json with space", "{\n  \"api_key\" : \"a1b2c3d4e5f6a7b8c9d0\"\n}", "{\n  \"api_key\" : \"[REDACTED]\"\n}"},
		{"json escaped quote", `{"password":"a\"b1c2d3"}`, `{"password":"[REDACTED]"}`},
		{"json in json", `{"a":"{\"password\":\"hun\\\"ter2\",\"b\":1}"}`, `{"a":"{\"password\":\"[REDACTED]\",\"b\":1}"}`},
		{"url query", "https://x.test/a?token=a1b2c3d4e5f6&b=2", "https://x.test/a?token=[REDACTED]&b=2"},
		{"url query in json", `{"u":"https://x.test/a?token=a1b2c3d4e5f6\u0026b=2"}`, `{"u":"https://x.test/a?token=[REDACTED]\u0026b=2"}`},
		{"url password", "https://user:pass@host/path", "https://user:[REDACTED]@host/path"},
		{"url password with at", "postgres://u:p@ss@host:5432/db", "postgres://u:[REDACTED]@host:5432/db"},
		{"url token as user", "https://" + "a1b2c3d4e5f6a7b8c9d0" + "@host/path", "https://[REDACTED]@host/path"},
		{"url without password", "https://user@host/path and mailto:a@b.c", "https://user@host/path and mailto:a@b.c"},
		{"two on a line", "a=" + ghToken + " b=" + awsID, "a=[REDACTED] b=[REDACTED]"},
		{"overlapping", "token=" + ghToken, "token=[REDACTED]"},
		{"escape before a token", `{"out":"x\n` + ghToken + `"}`, `{"out":"x\n[REDACTED]"}`},
		{"escape that looks like a token", `{"out":"x\npm_0123456789abcdefghijABCDEFGHIJ012345"}`, `{"out":"x\n[REDACTED]"}`},
		{"colour before a token", "\x1b[31m" + ghToken + "\x1b[0m", "\x1b[31m[REDACTED]\x1b[0m"},
		{"url escape before a token", "x%3D" + ghToken, "x%3D[REDACTED]"},
		{"already hidden", "password=[REDACTED] " + "token: [REDACTED]", "password=[REDACTED] token: [REDACTED]"},
		{"not ASCII", "pässword=ü password=süß3Käse! ü", "pässword=ü password=[REDACTED] ü"},
		{"short hex", "api_key=9f8e7d6c5b4a", "api_key=[REDACTED]"},
		{"words in a file", "HOST=db1\nAPI_KEY=letmeinplease\nPORT=80\n", "HOST=db1\nAPI_KEY=[REDACTED]\nPORT=80\n"},
		{"word after an option", "mysql --password=letmein app", "mysql --password=[REDACTED] app"},
		{"word after an option and a space", "mysql --password letmein app", "mysql --password [REDACTED] app"},
		{"word in a line", "connect user=anna password=letmein to db1", "connect user=anna password=[REDACTED] to db1"},
		{"word in YAML", "db:\n  db_password: topsecret\n", "db:\n  db_password: [REDACTED]\n"},
		{"words after token", "token=horsebattery", "token=[REDACTED]"},
		{"words after secret", "secret=correcthorsebattery", "secret=[REDACTED]"},
		{"word after bearer", "Authorization: Bearer abcdefghijkl", "Authorization: Bearer [REDACTED]"},
		{"letters after a prefix", "sk-abcdefghijklmnopqrstuvwx", "[REDACTED]"},
		{"key block", "a\n-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQ==\n-----END PRIVATE KEY-----\nb",
			"a\n-----BEGIN PRIVATE KEY-----\n[REDACTED]\n-----END PRIVATE KEY-----\nb"},
		{"key block in strings", `["-----BEGIN PRIVATE KEY-----","MIIEvQIBADANBgkqhkiG9w0BAQEFAASC","-----END PRIVATE KEY-----"]`,
			`["-----BEGIN PRIVATE KEY-----","[REDACTED]","-----END PRIVATE KEY-----"]`},
		{"certificate", "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END CERTIFICATE-----",
			"-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END CERTIFICATE-----"},
		{"prose after a header", "-----BEGIN PRIVATE KEY-----\nis the header of a key.", "-----BEGIN PRIVATE KEY-----\nis the header of a key."},
	}
	r := New(Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, hits := r.String(tt.in)
			if got != tt.want {
				t.Errorf("String(%q)\n got %q\nwant %q", tt.in, got, tt.want)
			}
			if (hits > 0) != (tt.in != tt.want) {
				t.Errorf("%d hits", hits)
			}
		})
	}
}

// TestOrdinary holds what must stay readable.
func TestOrdinary(t *testing.T) {
	for _, s := range []string{
		"password=your_password", "password: <password>", "token=<token>", "TOKEN=${TOKEN}", "TOKEN=$TOKEN", "token: ${{ secrets.GITHUB_TOKEN }}",
		"const token = process.env.API_TOKEN;", `token := os.Getenv("TOKEN")`, `password = os.environ["DB_PASSWORD"]`, `"password": "***"`,
		`password: "********"`, "password=xxxxxxxx", "password: string", "token: Token", "secret: bool;", `"token": null`, `"password": true`,
		"password = getPassword()", "password = user.password", "const password = await prompt('Password: ')", "self.token = token",
		"token = lexer.next_token()", "if token == tokens[i+1] {", "case token.COLON:", "max_tokens: 4096", `"max_tokens": 128000`,
		`"prompt_tokens": 1234, "completion_tokens": 5678`, "next_page_token=CAUQAA12xyzABC99", "password: required", `"password": "Passwort"`,
		"PWD=/home/user/project", "OLDPWD=/tmp/x1", "token_type=bearer", `"token_type":"Bearer"`, "Bearer authentication is used",
		"the basic operations", "Basic usage: run it", "--password string   the password", "--token TOKEN", "pass: 12 fail: 0",
		"--- PASS: TestSha256 (0.00s)", "PASS: TestUTF8Decode", "ok  \tpkg/sha256\t0.01s", "git push -u origin main:main",
		"docker run -u 1000:1000 alpine", "primary_key: id", `key: "user:1234:profile"`, `cache_key = "a8f5f167f44f4964e6c998dee827110c"`,
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "commit 16c7e42f292c6912e7710c838347ae178b4a0000",
		"https://example.com:8080/path@v2", "http://[::1]:8080/", "git@github.com:owner/repo.git", "npm_config_registry=https://registry.test/",
		"sk-learn and sk-circle-fade-dot", "task-1234567890abcdefghij", "id: 123e4567-e89b-12d3-a456-426614174000",
		`"integrity": "sha512-WFF0tAs7ZKV6k9Kp8vZ0Fw=="`, "secretary: Anna2000", "tokenize: utf8mb4", "password_hash_algorithm=argon2id",
		"author: token@example.com", "forgot-password: /reset/v2", `<input type="password" name="password2" id="pw">`,
		"Private-Lines: 3 is a header", "eyJ is how they begin", "keyboard=us101", "monkey: banana12", "AKIA is the prefix",
		`json:"password,omitempty"`, "x-api-key: {{apiKey}}", "api_key=YOUR_API_KEY", "api_key: REPLACE_ME", `apiKey: config.apiKey1`,
		"func (t *token) String() string { return t.value }", "credentials: include", "credentials: 'same-origin'", "auth: required",
	} {
		if got, hits := New(Options{}).String(s); hits != 0 {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestBytes(t *testing.T) {
	r := New(Options{})
	in := []byte("nothing")
	if out, n := r.Bytes(in); n != 0 || &out[0] != &in[0] {
		t.Errorf("%q, %d", out, n)
	}
	in = []byte("password=hunter2")
	out, n := r.Bytes(in)
	if n != 1 || string(out) != "password=[REDACTED]" || string(in) != "password=hunter2" {
		t.Errorf("%q, %d from %q", out, n, in)
	}
}

func TestAddSecrets(t *testing.T) {
	const secret = `t0p "secret" väl/ue?`
	r := New(Options{Secrets: []string{"first-value"}})
	r.AddSecrets(secret, "short", "", "REDACTED")
	for name, in := range map[string]string{
		"plain":            "x " + secret + " y",
		"in a word":        "x" + secret + "y",
		"json, ASCII only": `{"a":"t0p \"secret\" v\u00e4l/ue?"}`,
		"json, not ASCII":  `{"a":"t0p \"secret\" väl/ue?"}`,
		"query":            "a=t0p+%22secret%22+v%C3%A4l%2Fue%3F",
		"path":             "/t0p%20%22secret%22%20v%C3%A4l%2Fue%3F/",
		"hex":              "7430702022736563726574222076c3a46c2f75653f",
		"from the options": "first-value",
	} {
		if got, n := r.String(in); n != 1 || !strings.Contains(got, Marker) || leaks(got, "secret\" v") {
			t.Errorf("%s: %q, %d", name, got, n)
		}
	}
	for _, in := range []string{"short", "REDACTED", "[REDACTED]"} {
		if got, n := r.String(in); n != 0 {
			t.Errorf("%q became %q", in, got)
		}
	}
}

func TestAddSecretsInBase64(t *testing.T) {
	const secret = "bridge-token-0123456789"
	r := New(Options{Secrets: []string{secret}})
	for _, enc := range encodings {
		for _, before := range []string{"", "a", "ab", "abc", "user:"} {
			for _, after := range []string{"", "z", "zz", "\n"} {
				text := "v " + enc.EncodeToString([]byte(before+secret+after)) + " w"
				got, n := r.String(text)
				if n != 1 || len(got) > len("v  w")+len(Marker)+16 {
					t.Errorf("%q became %q, %d", text, got, n)
				}
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	r := New(Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				if _, n := r.String("password=hunter2 " + ghToken); n != 2 {
					t.Errorf("%d hits", n)
				}
				if i == 0 {
					r.AddSecrets("some-known-value")
				}
				s := r.NewStream()
				if got := s.Write("x "+ghToken[:9]) + s.Write(ghToken[9:]) + s.Flush(); got != "x [REDACTED]" {
					t.Errorf("stream: %q", got)
				}
			}
		})
	}
	wg.Wait()
}

// A known value is found wherever it stands, whatever is around it.
func TestKnownAnywhere(t *testing.T) {
	for _, secret := range []string{"Q7w!x2", "known-secret-value", "p\"a\\s\nß€"} {
		r := New(Options{Secrets: []string{secret}})
		for _, form := range forms(secret) {
			for before := range 12 {
				for after := range 5 {
					text := strings.Repeat(".", before) + form + strings.Repeat(".", after)
					if out, n := r.String(text); n != 1 || strings.Contains(out, form) {
						t.Errorf("%q became %q", text, out)
					}
				}
			}
		}
	}
}
