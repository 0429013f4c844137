package language

// Declared is a symbol as an editor reports it. Kind is the protocol's number,
// and positions count lines from 0 and UTF-16 units.
type Declared struct {
	Name, Detail     string
	Kind             int
	Range, Selection [2]Place
	Children         []Declared
}

// Place is a position in a document.
type Place struct{ Line, Character uint32 }

// Outline makes of an editor's symbols what Symbols would return for a
// document with this text.
func Outline(body string, found []Declared) []Symbol {
	return newText(body, utf16Units).symbols(declared(found))
}

func declared(found []Declared) []documentSymbol {
	at := func(p [2]Place) *span {
		return &span{Start: position(p[0]), End: position(p[1])}
	}
	var out []documentSymbol
	for _, d := range found {
		out = append(out, documentSymbol{Name: d.Name, Detail: d.Detail, Kind: d.Kind, Range: at(d.Range), SelectionRange: at(d.Selection), Children: declared(d.Children)})
	}
	return out
}
