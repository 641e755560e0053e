package pgserver

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func npmPlatformHere() string { return npmPlatform(runtime.GOOS, runtime.GOARCH) }

// fakeInstallation makes a directory with the two programs; postgres prints the version.
func fakeInstallation(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"postgres", "initdb"} {
		script := "#!/bin/sh\necho '" + name + " (PostgreSQL) " + version + "'\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindPrefersTheNamedDirectory(t *testing.T) {
	named, inPath := fakeInstallation(t, "17.3 (Fake 1)"), fakeInstallation(t, "16.1")
	t.Setenv("PATH", inPath)
	t.Setenv(EnvVersion, "")
	t.Setenv(EnvBin, named)
	found, err := Find(testContext(t), Options{})
	if err != nil || found.Dir != named || found.Major != 17 || found.Source != "named" {
		t.Errorf("environment: %+v %v", found, err)
	}
	t.Setenv(EnvBin, "")
	if found, err = Find(testContext(t), Options{BinDir: named}); err != nil || found.Dir != named {
		t.Errorf("option: %+v %v", found, err)
	}
	if found, err = Find(testContext(t), Options{}); err != nil || found.Dir != inPath || found.Source != "path" {
		t.Errorf("PATH: %+v %v", found, err)
	}
	if _, err = Find(testContext(t), Options{BinDir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "holds no usable postgres") {
		t.Errorf("named directory without binaries: %v", err)
	}
}

func TestFindCountsOnlyTheVersionAskedFor(t *testing.T) {
	named, one, two := fakeInstallation(t, "17.3"), fakeInstallation(t, "13.9"), fakeInstallation(t, "99beta1")
	t.Setenv("PATH", strings.Join([]string{"relative", one, two}, string(filepath.ListSeparator)))
	t.Setenv(EnvBin, named)
	t.Setenv(EnvVersion, "99")
	if found, err := Find(testContext(t), Options{}); err != nil || found.Dir != two {
		t.Errorf("environment: %+v %v", found, err)
	}
	if found, err := Find(testContext(t), Options{Version: 17}); err != nil || found.Dir != named {
		t.Errorf("option: %+v %v", found, err)
	}
	t.Setenv(EnvBin, "")
	t.Setenv(EnvVersion, "")
	if found, err := Find(testContext(t), Options{}); err != nil || found.Dir != two {
		t.Errorf("13 is too old: %+v %v", found, err)
	}
	for _, wrong := range []string{"13", "new", "14.2"} {
		t.Setenv(EnvVersion, wrong)
		if _, err := Find(testContext(t), Options{}); err == nil || !strings.Contains(err.Error(), EnvVersion) {
			t.Errorf("%s=%s: %v", EnvVersion, wrong, err)
		}
	}
}

func TestFindFollowsALinkInPATH(t *testing.T) {
	dir, links := fakeInstallation(t, "18.0"), t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "postgres"), filepath.Join(links, "postgres")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", links)
	t.Setenv(EnvBin, "")
	t.Setenv(EnvVersion, "")
	if found, err := Find(testContext(t), Options{}); err != nil || found.Dir != dir {
		t.Errorf("%+v %v", found, err)
	}
}

func TestFindSaysInOneSentenceWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no npm either
	t.Setenv(EnvBin, "")
	_, err := Find(testContext(t), Options{Version: 97, CacheDir: t.TempDir()})
	if !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	text := err.Error()
	for _, part := range []string{"PostgreSQL 97", "install", "npm", EnvBin} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in %q", part, text)
		}
	}
	if strings.ContainsAny(text, "\n") || strings.Contains(text, ". ") {
		t.Errorf("more than a sentence: %q", text)
	}
	_, err = fromNPM(testContext(t), Options{CacheDir: t.TempDir()}, 0)
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("no npm in PATH: %v", err)
	}
}

func TestVersionInPath(t *testing.T) {
	t.Parallel()
	dirs := []string{"/usr/lib/postgresql/9.6/bin", "/usr/pgsql-18/bin", "/opt/homebrew/opt/postgresql@17/bin", "/usr/local/pgsql/bin"}
	var got []int
	for _, dir := range dirs {
		got = append(got, versionInPath(dir))
	}
	if !slices.Equal(got, []int{6, 18, 17, 0}) {
		t.Errorf("%v", got)
	}
}

func TestServerEnvHasNoPGVariables(t *testing.T) {
	t.Setenv("PGPORT", "1")
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	t.Setenv(EnvVersion, "18")
	env := serverEnv()
	if slices.Contains(env, "PGPORT=1") || slices.Contains(env, "LC_ALL=de_DE.UTF-8") || !slices.Contains(env, EnvVersion+"=18") {
		t.Errorf("%q", env)
	}
}
