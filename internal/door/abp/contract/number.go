package contract

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

// powers are those of ten that a float can hold.
var powers = func() (p [309]float64) {
	for i := range p {
		p[i], _ = strconv.ParseFloat("1e"+strconv.Itoa(i), 64)
	}
	return p
}()

// errRange says that a number is beyond what a float can hold.
var errRange = errors.New("number out of range")

// numeral is a number under way. Its digits are taken up as long as they fit
// into 64 bits; the float is then made with one multiplication or division,
// which may miss the nearest one by a little. That is the point: the other
// side does the same.
type numeral struct {
	digits   uint64
	exponent int32
}

// add takes one more digit, if there is room.
func (n *numeral) add(c byte) bool {
	d := uint64(c - '0')
	if n.digits > math.MaxUint64/10 || n.digits == math.MaxUint64/10 && d > math.MaxUint64%10 {
		return false
	}
	n.digits = n.digits*10 + d
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (p *parser) number() (any, error) {
	negative := p.peek() == '-'
	if negative {
		p.at++
	}
	n := numeral{}
	switch c := p.peek(); {
	case c == '0':
		if p.at++; isDigit(p.peek()) {
			return nil, p.fault("invalid number")
		}
	case isDigit(c):
	default:
		return nil, p.fault("invalid number")
	}
	whole := true
	for ; isDigit(p.peek()); p.at++ {
		if whole = whole && n.add(p.in[p.at]); !whole {
			n.exponent++
		}
	}
	if c := p.peek(); c != '.' && c != 'e' && c != 'E' && whole {
		return integer(n.digits, negative), nil
	}
	err := p.fraction(&n)
	if err == nil {
		var f float64
		if f, err = p.power(n); err == nil {
			if negative {
				f = -f
			}
			return f, nil
		}
	}
	if errors.Is(err, errRange) {
		for isDigit(p.peek()) {
			p.at++
		}
		return p.spoiled(p.fault(errRange.Error())), nil
	}
	return nil, err
}

// integer is a number without fraction or exponent: one of 64 bits, or a
// float. A negative nothing is a float as well.
func integer(digits uint64, negative bool) any {
	if !negative {
		return digits
	}
	if v := -int64(digits); v < 0 { // wraps beyond the smallest
		return v
	}
	return -float64(digits)
}

// fraction reads what is behind a point, if there is one.
func (p *parser) fraction(n *numeral) error {
	if p.peek() != '.' {
		return nil
	}
	if p.at++; !isDigit(p.peek()) {
		return p.fault("invalid number")
	}
	for ; isDigit(p.peek()) && n.add(p.in[p.at]); p.at++ {
		n.exponent--
	}
	for isDigit(p.peek()) { // there is no room for these
		p.at++
	}
	return nil
}

// power reads the exponent, if there is one, and makes the float.
func (p *parser) power(n numeral) (float64, error) {
	if c := p.peek(); c != 'e' && c != 'E' {
		return n.float(int64(n.exponent))
	}
	p.at++
	sign := int64(1)
	if c := p.peek(); c == '+' || c == '-' {
		if p.at++; c == '-' {
			sign = -1
		}
	}
	if !isDigit(p.peek()) {
		return 0, p.fault("invalid number")
	}
	e := int64(0)
	for ; isDigit(p.peek()); p.at++ {
		if e = e*10 + int64(p.in[p.at]-'0'); e > math.MaxInt32 {
			if n.digits != 0 && sign > 0 {
				return 0, errRange
			}
			for isDigit(p.peek()) {
				p.at++
			}
			return 0, nil
		}
	}
	return n.float(max(min(int64(n.exponent)+sign*e, math.MaxInt32), math.MinInt32))
}

func (n numeral) float(exponent int64) (float64, error) {
	f := float64(n.digits)
	for {
		switch {
		case exponent >= 0 && exponent < int64(len(powers)):
			if f *= powers[exponent]; math.IsInf(f, 0) {
				return 0, errRange
			}
			return f, nil
		case exponent < 0 && -exponent < int64(len(powers)):
			return f / powers[-exponent], nil
		case f == 0:
			return f, nil
		case exponent >= 0:
			return 0, errRange
		}
		f /= 1e308
		exponent += 308
	}
}

// appendFloat writes the shortest digits that mean f: with a point if its
// first digit is not too far from it, and always one that tells it from an
// integer.
func appendFloat(to []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(to, "null"...)
	}
	begin := len(to)
	to = strconv.AppendFloat(to, f, 'e', -1, 64)
	mark := begin + bytes.LastIndexByte(to[begin:], 'e')
	exponent, err := strconv.Atoi(string(to[mark+1:]))
	if err != nil || exponent < -5 || exponent > 15 {
		// Go writes at least two digits.
		if sign, digits := to[mark+1], to[mark+2:]; len(digits) == 2 && digits[0] == '0' {
			return append(to[:mark+1], sign, digits[1])
		}
		return to
	}
	to = strconv.AppendFloat(to[:begin], f, 'f', -1, 64)
	if bytes.IndexByte(to[begin:], '.') < 0 {
		to = append(to, ".0"...)
	}
	return to
}
