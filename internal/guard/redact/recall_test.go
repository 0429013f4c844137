package redact

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// leaks reports whether an eighth of the secret or more, and at least eight
// characters of it, can still be read.
func leaks(out, secret string) bool {
	n := max(8, len(secret)/8)
	if n > len(secret) {
		n = len(secret)
	}
	for i := 0; i+n <= len(secret); i++ {
		if strings.Contains(out, secret[i:i+n]) {
			return true
		}
	}
	return false
}

// keyedSecrets are secrets that only the name tells.
func keyedSecrets() []kindOfSecret {
	password := func(r *rand.Rand) string {
		// Most rules for passwords ask for at least this.
		p := pick(r, letters, 1) + pick(r, letters+numerals+specials, 6+r.IntN(14)) + pick(r, numerals, 1) + pick(r, lowers, 1)
		return strings.NewReplacer("...", "x1x", "***", "y2y", "://", "z3z").Replace(p)
	}
	issued := func(r *rand.Rand) string { return pick(r, letters+numerals, 20+r.IntN(30)) }
	hexKey := func(r *rand.Rand) string { return pick(r, "0123456789abcdef", 32+8*r.IntN(5)) }
	base := func(r *rand.Rand) string {
		b := make([]byte, 24+r.IntN(40))
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		return base64.StdEncoding.EncodeToString(b)
	}
	var all []kindOfSecret
	for _, key := range strings.Fields("password passwd pwd DB_PASSWORD dbPassword spring.datasource.password passphrase admin_pass") {
		all = append(all, kindOfSecret{name: "password: " + key, key: key, make: password})
	}
	for _, key := range strings.Fields("token access_token authToken refresh-token secret client_secret clientSecret api_token") {
		all = append(all, kindOfSecret{name: "token: " + key, key: key, make: issued})
	}
	for _, key := range strings.Fields("api_key apiKey x-api-key apikey encryption_key signing_key access_key private_key license_key AccountKey GITHUB_PAT credentials") {
		all = append(all, kindOfSecret{name: "key: " + key, key: key, make: hexKey})
	}
	for _, key := range strings.Fields("aws_secret_access_key AWS_SECRET_ACCESS_KEY secretAccessKey") {
		all = append(all, kindOfSecret{name: "aws: " + key, key: key, make: func(r *rand.Rand) string { return pick(r, letters+numerals+"/+", 40) }})
	}
	for _, key := range strings.Fields("secret_key sharedAccessKey storage_key app_secret") {
		all = append(all, kindOfSecret{name: "base64: " + key, key: key, make: base})
	}
	for _, v := range vendors {
		all = append(all, kindOfSecret{name: "vendor: " + v, key: v + "_key", make: func(r *rand.Rand) string {
			return pick(r, lowers+numerals, 32)
		}})
	}
	return all
}

// placedSecrets stand in a place of their own.
func placedSecrets() []kindOfSecret {
	in := func(context, format string) func(string) sample {
		return func(secret string) sample {
			return sample{context, fmt.Sprintf(format, secret), secret}
		}
	}
	password := func(r *rand.Rand) string {
		return pick(r, letters+numerals+"!*-_.+", 8+r.IntN(12)) + pick(r, numerals, 2)
	}
	issued := func(r *rand.Rand) string { return pick(r, letters+numerals+"-_.", 20+r.IntN(30)) + "7" }
	userPassword := func(r *rand.Rand) string {
		return base64.StdEncoding.EncodeToString([]byte(pick(r, lowers, 4+r.IntN(6)) + ":" + pick(r, letters+numerals+specials, 6+r.IntN(16))))
	}
	line := func(r *rand.Rand) string { return pick(r, letters+numerals+"+/", 64) }
	pem := func(r *rand.Rand) string {
		var b strings.Builder
		for range 3 + r.IntN(24) {
			b.WriteString(line(r) + "\n")
		}
		return b.String() + pick(r, letters+numerals+"+/", 1+r.IntN(60)) + "="
	}
	return []kindOfSecret{
		{name: "url password", make: password, extra: []func(string) sample{
			in("https", "git clone https://user:%s@git.example.com/r.git\n"),
			in("postgres", `DATABASE_URL="postgres://app:%s@db.internal:5432/app?sslmode=disable"`),
			in("redis", "redis://:%s@cache:6379/0"),
			in("json", `{"url":"mongodb+srv://root:%s@cluster0.mongodb.net/test"}`),
			in("yaml", "broker: amqp://guest:%s@mq:5672/%%2f\n"),
			in("json slashes", `{"url":"https:\/\/u:%s@example.com\/x"}`),
			in("prose", "It is at ftp://anna:%s@ftp.example.com, I believe."),
		}},
		{name: "bearer", make: issued, extra: []func(string) sample{
			in("header", "Authorization: Bearer %s\r\nHost: x\r\n"),
			in("curl", `curl -H "Authorization: Bearer %s" https://x`),
			in("json", `{"headers":{"Authorization":"Bearer %s"}}`),
			in("yaml", "authorization: bearer %s\n"),
			in("source", `req.Header.Set("Authorization", "Bearer %s")`),
			in("prose", "use Bearer %s for now"),
			in("url", "https://x/?auth=Bearer%%20%s&y=1"),
		}},
		{name: "authorization", make: issued, extra: []func(string) sample{
			in("header", "Authorization: token %s\r\nHost: x\r\n"),
			in("curl", `curl -H 'Authorization: Token %s' https://x`),
			in("json", `{"headers":{"Authorization":"%s"}}`),
			in("proxy", "Proxy-Authorization: ApiKey %s\n"),
			in("yaml", "authorization: %s\n"),
			in("nested", `{"c":"{\"authorization\":\"GenieKey %s\"}"}`),
		}},
		{name: "basic", make: userPassword, extra: []func(string) sample{
			in("header", "Authorization: Basic %s\r\n"),
			in("curl", `curl -H "Authorization: Basic %s" https://x`),
			in("json", `{"authorization":"Basic %s"}`),
			in("yaml", "auth: basic %s\n"),
			in("source", `h.Set("Authorization", "Basic %s")`),
			in("prose", "send Basic %s with it"),
		}},
		{name: "private key", make: pem, extra: []func(string) sample{
			in("file", "-----BEGIN RSA PRIVATE KEY-----\n%s\n-----END RSA PRIVATE KEY-----\n"),
			in("encrypted", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0102030405060708090A0B0C0D0E0F10\n\n%s\n-----END RSA PRIVATE KEY-----\n"),
			in("openssh", "-----BEGIN OPENSSH PRIVATE KEY-----\n%s\n-----END OPENSSH PRIVATE KEY-----\n"),
			in("pgp", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n%s\n-----END PGP PRIVATE KEY BLOCK-----\n"),
			in("cut off", "-----BEGIN PRIVATE KEY-----\n%s"),
			func(secret string) sample {
				return sample{"json", `{"private_key":"-----BEGIN PRIVATE KEY-----\n` + strings.ReplaceAll(secret, "\n", `\n`) + `\n-----END PRIVATE KEY-----\n"}`, secret}
			},
			func(secret string) sample {
				var b strings.Builder
				for i, l := range strings.Split("-----BEGIN EC PRIVATE KEY-----\n"+secret+"\n-----END EC PRIVATE KEY-----", "\n") {
					fmt.Fprintf(&b, "%6d\t%s\n", i+1, l)
				}
				return sample{"numbered", b.String(), secret}
			},
			dressedKey("hash", "# "), dressedKey("bare hash", "#"), dressedKey("block comment", " * "), dressedKey("slashes", "// "),
			dressedKey("command", "echo '"), dressedKey("entity", "&#10;"), dressedKey("assignment", "KEY_LINES += "), dressedKey("Lisp", ";; "),
			func(secret string) sample {
				return sample{"diff", "+-----BEGIN PRIVATE KEY-----\n+" + strings.ReplaceAll(secret, "\n", "\n+") + "\n+-----END PRIVATE KEY-----\n", secret}
			},
			func(secret string) sample {
				return sample{"source", `key := "-----BEGIN PRIVATE KEY-----\n" +` + "\n\t\"" + strings.ReplaceAll(secret, "\n", "\\n\" +\n\t\"") + "\\n\" +\n\t\"-----END PRIVATE KEY-----\\n\"", secret}
			},
			func(secret string) sample {
				return sample{"one line", "KEY=-----BEGIN PRIVATE KEY-----" + strings.ReplaceAll(secret, "\n", "") + "-----END PRIVATE KEY-----", strings.ReplaceAll(secret, "\n", "")}
			},
			in("putty", "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 8\n%s\nPrivate-MAC: 00\n"),
		}},
		{name: "other places", make: password, extra: []func(string) sample{
			in("xml", "<settings><password>%s</password></settings>"),
			in("flag", "mysql --user=root --password %s app"),
			in("flag=", "mysql --user=root --password=%s app"),
			in("curl", "curl -u anna:%s https://x"),
			in("sql", "CREATE USER app WITH PASSWORD '%s';"),
			in("netrc", "machine git.example.com login anna password %s\n"),
			in("connection string", "Server=db;User Id=sa;Password=%s;Database=x"),
			in("container", `{"env":[{"name":"DB_PASSWORD","value":"%s"}]}`),
			in("container yaml", "env:\n- name: DB_PASSWORD\n  value: %s\n"),
			in("php", `'password' => '%s',`),
			in("python", `config["password"] = "%s"`),
			in("block", "password: |\n  %s\n"),
			in("form", "user=anna&password=%s&remember=1"),
			in("go", `Password: "%s",`),
			in("log", `level=info user=anna password=%s ok=true`),
		}},
		{name: "cookie", make: issued, extra: []func(string) sample{
			in("header", "Cookie: theme=dark; session=%s; lang=en\r\n"),
			in("set", "Set-Cookie: sid=%s; Path=/; HttpOnly\r\n"),
			in("json", `{"Cookie":"a=1; id=%s"}`),
			in("yaml", "cookie: id=%s\n"),
			in("curl", `curl -H 'Cookie: id=%s' https://x`),
			in("shell", `COOKIE="id=%s" ./run`),
		}},
	}
}

func TestRecall(t *testing.T) {
	const samples = 200
	r := New(Options{})
	all := familySecrets()
	all = append(all, keyedSecrets()...)
	all = append(all, placedSecrets()...)
	total, found := 0, 0
	for i, k := range all {
		t.Run(k.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			tried, hit, shown := 0, 0, 0
			seen := map[string]bool{}
			for range samples {
				token := k.make(rng)
				secret := token
				if k.bare != nil {
					secret = k.bare(token)
				}
				var cases []sample
				switch {
				case k.lone:
					cases = loneContexts(token, secret)
				case k.key != "":
					cases = contexts(k.key, token, secret)
				}
				for _, place := range k.extra {
					cases = append(cases, place(secret))
				}
				for _, c := range cases {
					seen[c.context] = true
					tried++
					out, n := r.String(c.text)
					if n > 0 && !leaks(out, c.secret) {
						hit++
						continue
					}
					if shown++; shown <= 3 {
						t.Logf("missed (%s): %q -> %q", c.context, c.text, out)
					}
				}
			}
			total, found = total+tried, found+hit
			rate := 100 * float64(hit) / float64(tried)
			t.Logf("%-28s %6.2f %% of %d in %d contexts", k.name, rate, tried, len(seen))
			if rate < 99 {
				t.Errorf("recall %.2f %%, want 99 %%", rate)
			}
			if len(seen) < 6 {
				t.Errorf("only %d contexts", len(seen))
			}
		})
	}
	t.Logf("all: %.3f %% of %d samples in %d families", 100*float64(found)/float64(total), total, len(all))
}

// dressedKey puts the same in front of every line of a key.
func dressedKey(name, front string) func(string) sample {
	return func(secret string) sample {
		lines := strings.Split("-----BEGIN RSA PRIVATE KEY-----\n"+secret+"\n-----END RSA PRIVATE KEY-----", "\n")
		return sample{name, front + strings.Join(lines, "\n"+front) + "\n", secret}
	}
}
