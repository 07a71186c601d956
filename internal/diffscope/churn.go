package diffscope

func (c *change) whitespaceLines() (*int, error) { return nil, nil }

func (c *change) commentLines() (language string, lines *int, err error) { return "", nil, nil }
