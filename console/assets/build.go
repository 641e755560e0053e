package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// entries are what pages load, or what a page starts as a worker: one output each. Nothing is split into shared chunks, so
// that every name is one that the templates know.
func entries() []string {
	return []string{
		"src/console.ts",     // every page
		"src/theme.ts",       // every page, before the first paint
		"src/performance.ts", // the page of that name
		"src/explained.ts",   // workers/explained
		"src/worker.ts",      // the module worker of both
		"styles/console.css", // every page
	}
}

// options are those of everything that is built. No source maps: they would name paths and double what is embedded.
func options() api.BuildOptions {
	return api.BuildOptions{
		Bundle:            true,
		Format:            api.FormatESModule,
		Platform:          api.PlatformBrowser,
		Target:            api.ES2022,
		Charset:           api.CharsetUTF8,
		MinifyWhitespace:  true,
		MinifySyntax:      true,
		MinifyIdentifiers: true,
		LegalComments:     api.LegalCommentsNone, // NOTICE has them
		Sourcemap:         api.SourceMapNone,
		Metafile:          true,
		Outdir:            out,
		LogLevel:          api.LogLevelSilent,
	}
}

// build makes everything in memory.
func build() (files, error) {
	built := files{}
	packages := map[string]bool{}
	for _, entry := range entries() {
		option := options()
		option.EntryPoints = []string{entry}
		if entry == "src/theme.ts" {
			option.Format = api.FormatIIFE // a classic script: a module would run after the first paint
		}
		result := api.Build(option)
		if err := problems(result); err != nil {
			return nil, fmt.Errorf("%s: %w", entry, err)
		}
		for _, file := range result.OutputFiles {
			built[filepath.Join(out, filepath.Base(file.Path))] = file.Contents
		}
		if err := collectPackages(result.Metafile, packages); err != nil {
			return nil, err
		}
	}
	notice, err := notice(packages)
	if err != nil {
		return nil, err
	}
	built["NOTICE"] = notice
	built[filepath.Join(out, "NOTICE.txt")] = notice
	return built, nil
}

// buildTests bundles the tests for Node, which knows no TypeScript before version 22.
func buildTests(dir string) error {
	tests, err := filepath.Glob("test/*.test.ts")
	if err != nil {
		return err
	}
	if len(tests) == 0 {
		return errors.New("there is nothing in test/")
	}
	option := options()
	option.EntryPoints, option.Outdir, option.Platform = tests, dir, api.PlatformNode
	option.MinifyIdentifiers, option.MinifySyntax, option.MinifyWhitespace = false, false, false
	option.OutExtension = map[string]string{".js": ".mjs"}
	option.Sourcemap = api.SourceMapInline
	option.Write = true
	return problems(api.Build(option))
}

// problems are errors and warnings: there are none in what is committed.
func problems(result api.BuildResult) error {
	messages := api.FormatMessages(append(result.Errors, result.Warnings...), api.FormatMessagesOptions{Kind: api.ErrorMessage})
	if len(messages) == 0 {
		return nil
	}
	return errors.New(strings.Join(messages, ""))
}
