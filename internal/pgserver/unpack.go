package pgserver

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// unpack extracts the npm archive into the new directory dir, without its leading "package/", and makes the symbolic links
// that npm archives cannot hold.
func unpack(archive, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	// Names in the archive cannot lead out of a Root.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	reader := tar.NewReader(unzipped)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return links(root)
		}
		if err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := extract(root, header, reader); err != nil {
			return fmt.Errorf("archive: %s: %w", header.Name, err)
		}
	}
}

func extract(root *os.Root, header *tar.Header, content io.Reader) error {
	name, ok := strings.CutPrefix(header.Name, "package/")
	if !ok {
		return nil
	}
	name = filepath.FromSlash(name)
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	// The server's user is another one when root runs it, so that everybody may read and run what the archive holds.
	mode := os.FileMode(0o644)
	if header.FileInfo().Mode()&0o100 != 0 {
		mode = 0o755
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, content); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// links makes the links listed in native/pg-symlinks.json. Without them postgres misses its own ICU, and initdb takes the
// system's libpq.
func links(root *os.Root) error {
	content, err := root.ReadFile(filepath.Join("native", "pg-symlinks.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // Windows has none
	}
	if err != nil {
		return err
	}
	var pairs []struct{ Source, Target string }
	if err := json.Unmarshal(content, &pairs); err != nil {
		return fmt.Errorf("pg-symlinks.json: %w", err)
	}
	for _, pair := range pairs {
		target := filepath.FromSlash(pair.Target)
		source, err := filepath.Rel(filepath.Dir(target), filepath.FromSlash(pair.Source))
		if err != nil {
			return fmt.Errorf("pg-symlinks.json: %w", err)
		}
		if err := root.Symlink(source, target); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}
