package memory

import "bytes"

// numbering gives terms numbers from 0 up. It does what a map would, in half
// the time: nearly every word of a text is a look-up here, and the table stays
// small enough for the processor's cache. It is for one goroutine.
type numbering struct {
	slots []slot // a power of two, at most half of them used
	ends  []uint32
	text  []byte // all terms, one after another
}

type slot struct {
	hash   uint32
	number uint32 // from 1; 0 is an empty slot
}

func (n *numbering) count() int { return len(n.ends) }

// term returns a term by its number.
func (n *numbering) term(i int) string { return string(n.bytes(uint32(i))) }

func (n *numbering) bytes(i uint32) []byte {
	begin := uint32(0)
	if i > 0 {
		begin = n.ends[i-1]
	}
	return n.text[begin:n.ends[i]]
}

// of returns the number of a term, a new one if it has none.
func (n *numbering) of(term []byte) uint32 {
	if 2*len(n.ends) >= len(n.slots) {
		n.grow()
	}
	hash := uint32(2166136261) // FNV-1a
	for _, c := range term {
		hash = (hash ^ uint32(c)) * 16777619
	}
	mask := uint32(len(n.slots) - 1)
	at := (hash ^ hash>>15) & mask
	for ; n.slots[at].number != 0; at = (at + 1) & mask {
		if s := n.slots[at]; s.hash == hash && bytes.Equal(n.bytes(s.number-1), term) {
			return s.number - 1
		}
	}
	n.text = append(n.text, term...)
	n.ends = append(n.ends, uint32(len(n.text)))
	n.slots[at] = slot{hash, uint32(len(n.ends))}
	return uint32(len(n.ends)) - 1
}

func (n *numbering) grow() {
	old := n.slots
	n.slots = make([]slot, max(4*len(old), 1<<12))
	mask := uint32(len(n.slots) - 1)
	for _, s := range old {
		if s.number == 0 {
			continue
		}
		at := (s.hash ^ s.hash>>15) & mask
		for n.slots[at].number != 0 {
			at = (at + 1) & mask
		}
		n.slots[at] = s
	}
}
