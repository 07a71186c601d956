package publish

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// namePunct is refused in the names of an artifact's files, beside control characters.
const namePunct = "\":<>|*?\\"

// An archive is a file of ours alone, packed or downloaded.
type archive struct {
	file   *os.File
	size   int64
	sha256 string // hex
}

func (a *archive) remove() {
	a.file.Close()
	os.Remove(a.file.Name())
}

// content reads the archive from its start.
func (a *archive) content() io.Reader { return io.NewSectionReader(a.file, 0, a.size) }

// packResults zips the regular files under dir.
func packResults(dir string, skip []string) (*archive, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := os.CreateTemp("", "assay-upload-*.zip")
	if err != nil {
		return nil, err
	}
	a := &archive{file: file}
	hash := sha256.New()
	if err := writeZip(io.MultiWriter(file, hash), root, skip); err != nil {
		a.remove()
		return nil, err
	}
	if a.size, err = file.Seek(0, io.SeekCurrent); err != nil {
		a.remove()
		return nil, err
	}
	a.sha256 = hex.EncodeToString(hash.Sum(nil))
	return a, nil
}

// writeZip writes in the order of names and without times, so that the same files are the same bytes.
func writeZip(w io.Writer, root *os.Root, skip []string) error {
	z := zip.NewWriter(w)
	files := 0
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(entry.Name(), "."), slices.Contains(skip, name):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular():
			return nil
		}
		files++
		return addFile(z, root, name)
	})
	if err == nil && files == 0 {
		err = errors.New("there is no file to upload")
	}
	return errors.Join(err, z.Close())
}

func addFile(z *zip.Writer, root *os.Root, name string) error {
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s changed its type while it was read", name)
	}
	header := &zip.FileHeader{Name: legalName(name), Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
	header.SetMode(0o644)
	w, err := z.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// legalName writes what the artifact service refuses in a name as %XX. Different names stay different.
func legalName(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		if r == utf8.RuneError && size == 1 || isControl(r) || r == '%' || strings.ContainsRune(namePunct, r) {
			fmt.Fprintf(&b, "%%%02X", name[i])
		} else {
			b.WriteString(name[i : i+size])
		}
		i += size
	}
	return b.String()
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }
