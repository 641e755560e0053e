package migrations

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Latest is the version that this package installs.
const Latest = 5

//go:embed sql/*.sql
var templates embed.FS

// FS returns the migrations as plain SQL files for one schema ("" = [DefaultSchema]): 0001_core.up.sql, 0001_core.down.sql and so on, in
// the root of the file system, as golang-migrate reads them. The files name every object with its schema, so they do not depend on a
// search_path. The error is a [*SchemaError].
func FS(schema string) (fs.FS, error) {
	schema, err := schemaOrDefault(schema)
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(templates, "sql")
	if err != nil {
		return nil, fmt.Errorf("migrations: open the embedded files: %w", err)
	}
	return &renderedFS{templates: files, replacer: newReplacer(schema)}, nil
}

// WriteFiles writes the files of [FS] into a directory, which is made if it does not exist. Files of the same names are replaced, others
// are left alone.
func WriteFiles(dir, schema string) error {
	files, err := FS(schema)
	if err != nil {
		return err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return fmt.Errorf("migrations: list the files: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return fmt.Errorf("migrations: read %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("migrations: %w", err)
		}
	}
	return nil
}

// newReplacer knows the placeholders of the templates: {schema} is the quoted identifier, {schema_literal} and {channel_literal} are
// string literals, as {control_literal} is, {tag} is the dollar quote around function bodies, which must not occur in the name.
func newReplacer(schema string) *strings.Replacer {
	return strings.NewReplacer(
		"{schema}", pgx.Identifier{schema}.Sanitize(),
		"{schema_literal}", quoteLiteral(schema),
		"{channel_literal}", quoteLiteral(Channel(schema)),
		"{control_literal}", quoteLiteral(ControlChannel(schema)),
		"{tag}", dollarTag(schema),
	)
}

// quoteLiteral writes a string literal that means the same whether standard_conforming_strings is on or off.
func quoteLiteral(s string) string {
	s = strings.ReplaceAll(s, `'`, `''`)
	if !strings.Contains(s, `\`) {
		return `'` + s + `'`
	}
	return `E'` + strings.ReplaceAll(s, `\`, `\\`) + `'`
}

// dollarTag returns a dollar quote that does not occur in the schema's name, which is written out in the bodies that it encloses.
func dollarTag(schema string) string {
	tag := "$body$"
	for i := 1; strings.Contains(schema, tag); i++ {
		tag = "$body" + strconv.Itoa(i) + "$"
	}
	return tag
}

// renderedFS shows the templates with their placeholders replaced.
type renderedFS struct {
	templates fs.FS
	replacer  *strings.Replacer
}

// Open implements [fs.FS].
func (f *renderedFS) Open(name string) (fs.File, error) {
	file, err := f.templates.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	if info.IsDir() {
		if dir, ok := file.(fs.ReadDirFile); ok {
			return &renderedDir{ReadDirFile: dir, fsys: f}, nil
		}
		return file, nil
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	rendered := f.replacer.Replace(string(text))
	return &renderedFile{Reader: strings.NewReader(rendered), info: renderedInfo{FileInfo: info, size: int64(len(rendered))}}, nil
}

// renderedFile is one rendered file, open for reading.
type renderedFile struct {
	*strings.Reader
	info renderedInfo
}

// Stat implements [fs.File].
func (f *renderedFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// Close implements [fs.File]. There is nothing to close.
func (f *renderedFile) Close() error { return nil }

// renderedInfo has the size of the rendered text instead of the template's.
type renderedInfo struct {
	fs.FileInfo
	size int64
}

// Size is the length of the rendered text in bytes.
func (i renderedInfo) Size() int64 { return i.size }

// renderedDir lists the files with their rendered sizes.
type renderedDir struct {
	fs.ReadDirFile
	fsys *renderedFS
}

// ReadDir implements [fs.ReadDirFile].
func (d *renderedDir) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := d.ReadDirFile.ReadDir(n)
	for i, entry := range entries {
		entries[i] = renderedEntry{DirEntry: entry, fsys: d.fsys}
	}
	return entries, err
}

// renderedEntry is one file in the listing.
type renderedEntry struct {
	fs.DirEntry
	fsys *renderedFS
}

// Info implements [fs.DirEntry].
func (e renderedEntry) Info() (fs.FileInfo, error) {
	return fs.Stat(e.fsys, e.Name())
}
