package anthropic

import (
	"unicode"
	"unicode/utf8"
)

// The averages behind textTokens, in hundredths of a token. They were fitted
// to prose in a dozen languages and to source code, between what OpenAI's
// o200k_base and the tokenizer that Anthropic has published make of them. The
// two are 5 to 20 % apart in English and in code, 35 % in Chinese, and nearly
// twofold in Korean and Russian: no estimate can be closer to both.
const (
	blankCost  = 100 // a run of spaces, or a new line and its indentation
	markCost   = 70  // a punctuation mark; many come in pairs
	hanCost    = 75
	kanaCost   = 78
	hangulCost = 88
	rareCost   = 130 // a symbol
	emojiCost  = 250 // beyond the first plane
)

func wordCost(letters int) int64    { return 100 + 16*int64(max(0, letters-5)) }
func foreignCost(letters int) int64 { return 55 + 28*int64(letters) }
func numberCost(digits int) int64   { return 60 + 35*int64(digits) }

// textTokens estimates how many tokens a text has. It goes through the text as
// tokenizers do, word by word, and takes what a word of that length costs on
// average.
func textTokens(s string) int64 {
	var cost int64
	for i := 0; i < len(s); {
		start := i
		switch c := s[i]; {
		case letter(c):
			for i++; i < len(s) && letter(s[i]) && (s[i] >= 'a' || s[i-1] < 'a'); {
				i++ // up to a capital letter after a small one
			}
			if i == len(s) || s[i] < utf8.RuneSelf {
				cost += wordCost(i - start)
				continue
			}
			i = wordEnd(s, i)
			cost += foreignCost(utf8.RuneCountInString(s[start:i]))
		case digit(c):
			for i++; i < len(s) && digit(s[i]); {
				i++
			}
			cost += numberCost(i - start)
		case c <= ' ':
			for i++; i < len(s) && s[i] <= ' '; {
				i++
			}
			if c != ' ' || i-start > 1 {
				cost += blankCost
			} // a single space is part of the word after it
		case c < utf8.RuneSelf:
			i++
			cost += markCost
		default:
			i = wordEnd(s, i)
			if i > start {
				cost += foreignCost(utf8.RuneCountInString(s[start:i]))
				continue
			}
			r, size := utf8.DecodeRuneInString(s[i:])
			i += size
			cost += runeCost(r)
		}
	}
	return (cost + 99) / 100
}

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

// wordEnd is the end of the word that s[i] is in, of a script with spaces
// between words; i itself if it is in none.
func wordEnd(s string, i int) int {
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r >= firstWide || !unicode.IsLetter(r) && !unicode.IsMark(r) {
			break
		}
		i += size
	}
	return i
}

// firstWide begins the scripts of East Asia.
const firstWide = 0x2E80

func runeCost(r rune) int64 {
	switch {
	case r > 0xFFFF:
		return emojiCost
	case unicode.Is(unicode.Han, r):
		return hanCost
	case 0xAC00 <= r && r <= 0xD7A3:
		return hangulCost
	case 0x3000 <= r && r <= 0x30FF, 0xFF00 <= r && r <= 0xFFEF:
		return kanaCost // and punctuation
	default:
		return rareCost
	}
}
