package storekit

// Commas counts the commas of JSON that comes in pieces, but for those in texts. What is decoded may take fifty times the memory that
// {},{},{} has bytes, so whoever reads what a server says bounds their number.
type Commas struct {
	N               int
	inside, escaped bool // a text
}

// Count takes in the next piece.
func (c *Commas) Count(p []byte) {
	for _, b := range p {
		switch {
		case c.escaped:
			c.escaped = false
		case c.inside && b == '\\':
			c.escaped = true
		case b == '"':
			c.inside = !c.inside
		case b == ',' && !c.inside:
			c.N++
		}
	}
}
