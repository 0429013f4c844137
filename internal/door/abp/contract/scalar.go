package contract

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
)

// UUID is an identifier in its usual form: lower case, with hyphens.
type UUID string

// ParseUUID reads any of the forms in which they are written.
func ParseUUID(s string) (UUID, error) {
	text := strings.ToLower(strings.TrimPrefix(s, "urn:uuid:"))
	if n := len(text); n == 38 && text[0] == '{' && text[n-1] == '}' && len(s) == 38 {
		text = text[1 : n-1]
	}
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' {
		text = text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	} else if len(text) != 32 || len(s) != 32 {
		return "", errors.New("UUID parsing failed: " + quoteShort(s) + " is no UUID")
	}
	var raw [16]byte
	if _, err := hex.Decode(raw[:], []byte(text)); err != nil {
		return "", errors.New("UUID parsing failed: " + quoteShort(s) + " is no UUID")
	}
	return formatUUID(raw), nil
}

// NameUUID returns the identifier of a name: always the same one.
func NameUUID(name string) UUID {
	// RFC 9562, version 5, in the name space of object identifiers.
	space, _ := hex.DecodeString("6ba7b8129dad11d180b400c04fd430c8")
	sum := sha1.Sum(append(space, name...))
	raw := [16]byte(sum[:16])
	raw[6] = raw[6]&0x0f | 0x50
	raw[8] = raw[8]&0x3f | 0x80
	return formatUUID(raw)
}

func formatUUID(raw [16]byte) UUID {
	h := hex.EncodeToString(raw[:])
	return UUID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

func quoteShort(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return "`" + s + "`"
}
