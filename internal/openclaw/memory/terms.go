package memory

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxTerm is the longest term, in bytes. Longer runs of letters are data.
const maxTerm = 64

// scanner takes texts apart into terms. It is for one goroutine.
type scanner struct {
	word []byte
	run  []rune // of a script that does without spaces
}

// each calls yield with every term of a text: words in lower case without
// accents and plural endings, and of scripts without spaces every character
// and every pair. The term is overwritten by the next. With query, a pair's
// characters are left out, since the pair says more.
func (s *scanner) each(text string, query bool, yield func(term []byte)) {
	plain := true // so far the word is ASCII
	s.word, s.run = s.word[:0], s.run[:0]
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case 'A' <= c && c <= 'Z':
				c += 'a' - 'A'
			case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			default:
				if len(s.word) > 0 {
					s.endWord(plain, yield)
					plain = true
				}
				s.endRun(query, yield)
				continue
			}
			s.endRun(query, yield)
			s.word = append(s.word, c)
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		switch {
		case spaceless(r):
			s.endWord(plain, yield)
			plain = true
			s.run = append(s.run, r)
		case unicode.In(r, unicode.L, unicode.N, unicode.M):
			if len(s.run) > 0 && unicode.Is(unicode.M, r) { // a vowel sign, or a voicing mark
				s.run = append(s.run, r)
				continue
			}
			s.endRun(query, yield)
			s.word, plain = utf8.AppendRune(s.word, r), false
		case r == '\u200d' || r == '\u200c' || r == '\u00ad': // joiners and soft hyphens are within words
		default:
			s.endWord(plain, yield)
			plain = true
			s.endRun(query, yield)
		}
	}
	s.endWord(plain, yield)
	s.endRun(query, yield)
}

func (s *scanner) endWord(plain bool, yield func([]byte)) {
	if len(s.word) == 0 {
		return
	}
	word := s.word
	if !plain {
		word = fold(word)
	}
	if len(word) > maxTerm {
		word = word[:maxTerm]
		for len(word) > 0 && !utf8.Valid(word) {
			word = word[:len(word)-1]
		}
	}
	if word = singular(word); len(word) > 0 {
		yield(word)
	}
	s.word = s.word[:0]
}

// fold makes different spellings of a word one: compatibility forms, case,
// accents.
func fold(word []byte) []byte {
	var out []byte
	for _, r := range string(norm.NFKD.Bytes(word)) {
		if !unicode.Is(unicode.Mn, r) {
			out = utf8.AppendRune(out, unicode.ToLower(r))
		}
	}
	if len(out) == 0 { // marks alone
		return word
	}
	return norm.NFC.Bytes(out)
}

// singular takes the usual endings of an English plural off, which is wrong
// for some words but for all of their occurrences alike.
func singular(w []byte) []byte {
	n := len(w)
	if n < 4 || w[n-1] != 's' {
		return w
	}
	switch {
	case w[n-2] == 's' || w[n-2] == 'u':
		return w
	case w[n-3] == 'i' && w[n-2] == 'e' && n > 4:
		w[n-3] = 'y'
		return w[:n-2]
	}
	return w[:n-1]
}

func (s *scanner) endRun(query bool, yield func([]byte)) {
	if len(s.run) == 0 {
		return
	}
	run := []rune(norm.NFKC.String(string(s.run)))
	var buf [2 * utf8.UTFMax]byte
	for i, r := range run {
		one := utf8.AppendRune(buf[:0], unicode.ToLower(r))
		if !query || len(run) == 1 {
			yield(one)
		}
		if i+1 < len(run) {
			yield(utf8.AppendRune(one, unicode.ToLower(run[i+1])))
		}
	}
	s.run = s.run[:0]
}

// spaceless reports whether a character is of a script in which words are not
// set apart, or, as in Korean, not so that one would find them.
func spaceless(r rune) bool {
	if r < 0x0e00 {
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) ||
		r == 'ー' || r == '々'
}
