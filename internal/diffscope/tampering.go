package diffscope

func tampering(p Patch, files []FileFacts) ([]Finding, error) { return []Finding{}, nil }
