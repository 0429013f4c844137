package redact

// automaton finds all of a set of literals in one pass over a text
// (Aho–Corasick). It is built once and then only read, so any number of
// goroutines may use it.
//
// Written by hand because the pass must be resumable for streams, and because
// the libraries that exist for it keep one map or one 256-way node per state,
// which does not fit the processor's cache.
type automaton struct {
	class  [256]uint8 // bytes that no literal tells apart share a class
	width  int        // how many classes there are
	next   []uint16   // next[state*width+class]
	depth  []uint16   // how many bytes of a literal lead to the state
	accept uint16     // the states from here on end at least one literal
	ends   [][]int32  // ends[state-accept]: the literals that end there, longest first
	lens   []int
}

// node is a trie node while the automaton is being built.
type node struct {
	kids  map[uint8]int
	fail  int
	depth int
	ends  []int32
}

// newAutomaton builds one for the literals, whose indexes it reports. They are
// in lower case and match either case of ASCII letters. It returns nil if there
// are none.
func newAutomaton(literals []string) *automaton {
	if len(literals) == 0 {
		return nil
	}
	a := &automaton{width: 1}
	for _, lit := range literals {
		a.lens = append(a.lens, len(lit))
		for i := range len(lit) {
			c := lit[i]
			if a.class[c] != 0 {
				continue
			}
			a.class[c] = uint8(a.width)
			if 'a' <= c && c <= 'z' {
				a.class[c-'a'+'A'] = uint8(a.width)
			}
			a.width++
		}
	}
	a.buildTable(buildTrie(a, literals))
	return a
}

// buildTrie builds the trie with its failure links. The order in which it returns
// the nodes' numbers puts every node after the one it fails to.
func buildTrie(a *automaton, literals []string) (nodes []node, order []int) {
	nodes = []node{{kids: map[uint8]int{}}}
	for id, lit := range literals {
		at := 0
		for i := range len(lit) {
			k := a.class[lit[i]]
			kid, ok := nodes[at].kids[k]
			if !ok {
				kid = len(nodes)
				nodes = append(nodes, node{kids: map[uint8]int{}, depth: i + 1})
				nodes[at].kids[k] = kid
			}
			at = kid
		}
		nodes[at].ends = append(nodes[at].ends, int32(id))
	}
	order = []int{0}
	for i := 0; i < len(order); i++ {
		at := order[i]
		for k, kid := range nodes[at].kids {
			order = append(order, kid)
			if at == 0 {
				continue
			}
			f := nodes[at].fail
			to, ok := nodes[f].kids[k]
			for ; f != 0 && !ok; to, ok = nodes[f].kids[k] {
				f = nodes[f].fail
			}
			nodes[kid].fail = to // the root if there is none
			nodes[kid].ends = append(nodes[kid].ends, nodes[nodes[kid].fail].ends...)
		}
	}
	return nodes, order
}

// buildTable writes the trie down as one table. Accepting states come last, so that
// a single comparison tells them.
func (a *automaton) buildTable(nodes []node, order []int) {
	number := make([]int, len(nodes))
	n := 0
	for _, accepting := range []bool{false, true} {
		if accepting {
			a.accept = uint16(n)
		}
		for i := range nodes {
			if (len(nodes[i].ends) > 0) == accepting {
				number[i] = n
				n++
			}
		}
	}
	a.next = make([]uint16, len(nodes)*a.width)
	a.depth = make([]uint16, len(nodes))
	a.ends = make([][]int32, len(nodes)-int(a.accept))
	for _, i := range order {
		state := number[i]
		a.depth[state] = uint16(nodes[i].depth)
		if state >= int(a.accept) {
			a.ends[state-int(a.accept)] = nodes[i].ends
		}
		row := a.next[state*a.width : (state+1)*a.width]
		if fail := number[nodes[i].fail]; i != 0 {
			copy(row, a.next[fail*a.width:(fail+1)*a.width])
		}
		for k, kid := range nodes[i].kids {
			row[k] = uint16(number[kid])
		}
	}
}

// in reports whether one of the literals is in s. Every step of a pass waits
// for the one before, so the processor has time for a second pass, through the
// second half of s.
func (a *automaton) in(s string) bool {
	next, class, width, accept := a.next, &a.class, a.width, a.accept
	half := len(s) / 2
	second := s[half:]
	x, y := uint16(0), uint16(0)
	for i, c := range []byte(s[:half]) {
		x = next[int(x)*width+int(class[c])]
		y = next[int(y)*width+int(class[second[i]])]
		if x >= accept || y >= accept {
			return true
		}
	}
	if len(second) > half {
		if y = next[int(y)*width+int(class[second[half]])]; y >= accept {
			return true
		}
	}
	// What begins in the first half may end in the second.
	for i := 0; i < len(second) && int(a.depth[x]) > i; i++ {
		if x = next[int(x)*width+int(class[second[i]])]; x >= accept {
			return true
		}
	}
	return false
}
