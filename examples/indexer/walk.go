package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// sourceFile is one file of the tree. The path is relative to its root and has forward slashes: it is the key of the
// file's job. The hash of the content is the job's revision.
type sourceFile struct {
	path string
	hash string
}

// walkTree returns all Go files below root, in lexical order.
func walkTree(ctx context.Context, root string) ([]sourceFile, error) {
	var files []sourceFile
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !entry.Type().IsRegular() || !strings.HasSuffix(entry.Name(), ".go") {
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files = append(files, sourceFile{path: filepath.ToSlash(relative), hash: hashOf(content)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk the tree: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("walk the tree: there are no Go files below %s", root)
	}
	return files, nil
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
