package publish

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	maxArchive = 200 << 20 // bytes of an archive, packed and unpacked
	maxRatio   = 100       // unpacked to packed, over the whole archive
	freeRatio  = 1 << 20   // unpacked bytes for which the ratio is not looked at
	maxName    = 400       // bytes of a file's name with its folders
	maxNesting = 16        // folders within folders
)

// Limits bound what is taken from an archive. They come on top of what holds for every archive: 200 MB unpacked, and not
// more than 100 times its packed size.
type Limits struct {
	Files int // entries, folders included
}

// LimitsFor are the limits for the results of a run with that many planned cells.
func LimitsFor(planned int) Limits { return Limits{Files: 10*planned + 20} }

// Unzip unpacks an archive of strangers into an empty folder. It takes regular files with plain relative names and
// nothing else: no links, no devices, no encryption, no name twice, not even in other letter case. All names and
// sizes are checked before the first byte is written; what the sizes do not say truly is found while unpacking. After
// an error the folder may hold a part, which is not to be used.
func Unzip(r io.ReaderAt, size int64, into *os.Root, l Limits) error {
	files, err := checkZip(r, size, l)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := unpack(f, into); err != nil {
			return fmt.Errorf("archive entry %q: %w", f.Name, err)
		}
	}
	return nil
}

// checkZip reads the directory of an archive and returns its regular files.
func checkZip(r io.ReaderAt, size int64, l Limits) ([]*zip.File, error) {
	if size > maxArchive {
		return nil, fmt.Errorf("archive: %d bytes, more than %d", size, maxArchive)
	}
	directory := &directoryReader{from: r, left: int64(l.Files+1)*(maxName+256) + 256<<10}
	z, err := zip.NewReader(directory, size)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	directory.left = 1 << 62 // from here on files are read, each for itself

	if len(z.File) > l.Files {
		return nil, fmt.Errorf("archive: %d entries, more than %d", len(z.File), l.Files)
	}
	var files []*zip.File
	var total uint64
	seen := map[string]claim{}
	for _, f := range z.File {
		if err := checkEntry(f, seen); err != nil {
			name := f.Name
			if len(name) > maxName {
				name = name[:maxName] + "…"
			}
			return nil, fmt.Errorf("archive entry %q: %w", name, err)
		}
		if total += f.UncompressedSize64; f.UncompressedSize64 > maxArchive || total > maxArchive {
			return nil, fmt.Errorf("archive: more than %d bytes unpacked", maxArchive)
		}
		if f.Mode().IsRegular() {
			files = append(files, f)
		}
	}
	if total > freeRatio && total/maxRatio > uint64(size) {
		return nil, fmt.Errorf("archive: unpacks to more than %d times its size", maxRatio)
	}
	return files, nil
}

// A directoryReader bounds what is read to find an archive's directory, which package zip holds in memory as a whole.
type directoryReader struct {
	from io.ReaderAt
	left int64
}

func (d *directoryReader) ReadAt(p []byte, at int64) (int, error) {
	if d.left -= int64(len(p)); d.left < 0 {
		return 0, errors.New("too many entries or too long names")
	}
	return d.from.ReadAt(p, at)
}

// A claim is a name of an archive as it was first written, by a file or as a folder.
type claim struct {
	name string
	file bool
}

func checkEntry(f *zip.File, seen map[string]claim) error {
	mode := f.Mode()
	name := f.Name
	if mode.IsDir() {
		name = strings.TrimSuffix(name, "/")
	}
	switch {
	case !mode.IsRegular() && !mode.IsDir():
		return errors.New("neither a file nor a folder")
	case mode.IsDir() && f.UncompressedSize64 > 0:
		return errors.New("a folder with bytes of its own")
	case f.Flags&1 != 0:
		return errors.New("encrypted")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return fmt.Errorf("packed by the unknown method %d", f.Method)
	case len(name) > maxName || strings.Count(name, "/") >= maxNesting:
		return errors.New("name too long or too deep")
	case name == "." || !fs.ValidPath(name) || !filepath.IsLocal(filepath.FromSlash(name)):
		return errors.New("not a plain relative name")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, isControl) || strings.ContainsAny(name, namePunct):
		return errors.New("a character that artifacts do not allow")
	}
	return take(seen, name, mode.IsRegular())
}

// take claims a name and the folders above it. Letter case is folded, as some file systems do.
func take(seen map[string]claim, name string, file bool) error {
	key := strings.ToLower(strings.ToUpper(name))
	had, twice := seen[key]
	switch {
	case twice && had.name != name:
		return fmt.Errorf("differs from %q in letter case alone", had.name)
	case twice && (had.file || file):
		return errors.New("a name twice")
	}
	seen[key] = claim{name, file}
	if above := path.Dir(name); above != "." {
		return take(seen, above, false)
	}
	return nil
}

// unpack writes one file. Package zip reads no more of it than the directory says, and verifies size and checksum at its end.
func unpack(f *zip.File, into *os.Root) error {
	name := filepath.FromSlash(f.Name)
	if err := into.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := into.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}
