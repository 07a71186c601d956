package gateway

// A Cell is the door of one cell to its models. Its methods may be called at the same time.
type Cell struct{}

// URL is the base address of a dialect, as the settings of an agent want it: for anthropic and gemini without a path, for
// chat and responses with /v1.
func (c *Cell) URL(d Dialect) string { return "" }

// Key is what the agent sends as its key. It opens nothing but this cell.
func (c *Cell) Key() string { return "" }

// Seen is what was seen so far.
func (c *Cell) Seen() Seen { return Seen{} }

// OnActivity has f called whenever a byte comes from a model.
func (c *Cell) OnActivity(f func()) {}

// Close ends the cell: its address answers 404 from now on. It returns what was seen.
func (c *Cell) Close() Seen { return c.Seen() }
