package gateway

import "github.com/assay-ci/assay/internal/redact"

// RecordTo records every cell of a run below a folder.
func RecordTo(dir string, secrets *redact.Redactor) Cassettes {
	return cassettes{dir: dir, secrets: secrets}
}

// PlayFrom answers every cell of a run from what was recorded below a folder.
func PlayFrom(dir string, secrets *redact.Redactor) Cassettes {
	return cassettes{dir: dir, secrets: secrets, plays: true}
}

type cassettes struct {
	dir     string
	secrets *redact.Redactor
	plays   bool
}

func (c cassettes) replays() bool { return c.plays }

func (c cassettes) open(name string) (tape, error) {
	if c.plays {
		p, err := Replay(c.dir, name, c.secrets)
		return playing{p}, err
	}
	r, err := Record(c.dir, name, c.secrets)
	return recording{r}, err
}

// playing is a Player as the gateway asks it.
type playing struct{ player *Player }

func (p playing) take(k taped) (*taped, error) {
	x, err := p.player.Next(Exchange{Lane: k.lane, Ordinal: k.ordinal, Dialect: k.dialect, Path: k.path, Request: k.request})
	if err != nil {
		return nil, err
	}
	k.status, k.header, k.cut = x.Status, x.Header, x.Cut
	for _, c := range x.Chunks {
		k.chunks = append(k.chunks, tapedChunk{c.At, c.Data})
	}
	return &k, nil
}

func (p playing) keep(taped) error { return nil }

func (p playing) close() (left int, err error) { return p.player.Leftover(), nil }

// recording is a Recorder as the gateway asks it.
type recording struct{ recorder *Recorder }

func (r recording) take(taped) (*taped, error) { return nil, nil }

func (r recording) keep(k taped) error {
	x := Exchange{Lane: k.lane, Ordinal: k.ordinal, Dialect: k.dialect, Path: k.path, Request: k.request,
		Status: k.status, Header: k.header, Chunks: []Chunk{}, Cut: k.cut}
	for _, c := range k.chunks {
		x.Chunks = append(x.Chunks, Chunk{c.at, c.data})
	}
	return r.recorder.Add(x)
}

func (r recording) close() (left int, err error) { return 0, r.recorder.Close() }
