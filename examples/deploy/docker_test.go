package deploy_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// instruction is one line of a Dockerfile, its continuations joined.
type instruction struct{ name, rest string }

// stage is what follows a FROM.
type stage struct {
	image, name string
	lines       []instruction
}

func (s stage) all(name string) (rest []string) {
	for _, l := range s.lines {
		if l.name == name {
			rest = append(rest, l.rest)
		}
	}
	return rest
}

// readDockerfile is a parser for what our Dockerfile has: comments, continuations, stages.
func readDockerfile(t *testing.T) (stages []stage) {
	t.Helper()
	text, err := os.ReadFile("docker/Dockerfile")
	require.NoError(t, err)
	text = regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAll(text, nil)
	text = bytes.ReplaceAll(text, []byte("\\\n"), nil)
	known := []string{"FROM", "ENV", "WORKDIR", "COPY", "RUN", "ARG", "LABEL", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		require.Contains(t, known, name, line)
		if name == "FROM" {
			image, as, _ := strings.Cut(rest, " AS ")
			stages = append(stages, stage{image: image, name: as})
			continue
		}
		require.NotEmpty(t, stages, "%s comes before FROM", line)
		last := &stages[len(stages)-1]
		last.lines = append(last.lines, instruction{name, strings.TrimSpace(rest)})
	}
	require.Len(t, stages, 2)
	return stages
}

// imageEnvironment is what ENV sets in the image.
func imageEnvironment(t *testing.T) map[string]string {
	t.Helper()
	environment := map[string]string{}
	for _, rest := range readDockerfile(t)[1].all("ENV") {
		for _, pair := range strings.Fields(rest) {
			name, value, ok := strings.Cut(pair, "=")
			require.True(t, ok, pair)
			environment[name] = value
		}
	}
	return environment
}

func TestDockerfile(t *testing.T) {
	stages := readDockerfile(t)
	build, image := stages[0], stages[1]
	t.Run("Go is go.mod's", func(t *testing.T) {
		mod, err := os.ReadFile(repository + "/go.mod")
		require.NoError(t, err)
		want := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
		require.NotNil(t, want)
		require.Regexp(t, `^golang:`+regexp.QuoteMeta(string(want[1]))+`\.\d+-bookworm$`, build.image)
		require.Equal(t, []string{"GOTOOLCHAIN=local"}, build.all("ENV"))
	})
	t.Run("the C library is the one it was built with", func(t *testing.T) {
		require.Contains(t, strings.Join(build.all("RUN"), "\n"), "CGO_ENABLED=1 go build")
		require.Equal(t, "gcr.io/distroless/base-debian12:nonroot", image.image, "bookworm is Debian 12; the static image has no glibc")
	})
	t.Run("every source of a COPY is there", func(t *testing.T) {
		ignored := dockerIgnore(t)
		built := strings.Join(build.all("RUN"), "\n")
		for _, s := range stages {
			for _, rest := range s.all("COPY") {
				var sources []string
				from := ""
				for _, word := range strings.Fields(rest) {
					if value, ok := strings.CutPrefix(word, "--from="); ok {
						from = value
					} else if !strings.HasPrefix(word, "--") {
						sources = append(sources, word)
					}
				}
				require.GreaterOrEqual(t, len(sources), 2, rest)
				for _, source := range sources[:len(sources)-1] {
					if from != "" {
						require.Equal(t, build.name, from)
						require.Contains(t, built, source, "no RUN makes it")
						continue
					}
					_, err := os.Stat(filepath.Join(repository, source))
					require.NoError(t, err)
					require.False(t, ignored(source), "%s is in .dockerignore", source)
				}
			}
		}
	})
	t.Run("runs as nobody, and is told to drain", func(t *testing.T) {
		require.Equal(t, []string{"65532:65532"}, image.all("USER"))
		require.Equal(t, []string{"SIGTERM"}, image.all("STOPSIGNAL"))
		require.Equal(t, []string{"/data"}, image.all("VOLUME"))
		require.Equal(t, []string{`["/usr/local/bin/node"]`}, image.all("ENTRYPOINT"), "no shell: signals reach the node")
		require.Equal(t, []string{`["run"]`}, image.all("CMD"))
		require.Empty(t, image.all("RUN"), "there is no shell to run anything with")
		require.Contains(t, image.all("COPY"), "--from=build --chown=65532:65532 /out/data /data")
	})
	t.Run("its settings are a node's", func(t *testing.T) {
		environment := imageEnvironment(t)
		requireKnown(t, environment)
		require.Equal(t, "/data", environment["LEASEHOLD_STATE_ROOT"])
		require.Equal(t, []string{"7070 4222 6222"}, image.all("EXPOSE"))
		require.True(t, strings.HasSuffix(environment["LEASEHOLD_LISTEN"], ":7070"))
	})
}

// dockerIgnore returns the rule of .dockerignore: patterns as of path.Match, ** for any number of folders, and what is below an
// ignored folder is ignored.
func dockerIgnore(t *testing.T) func(path string) bool {
	t.Helper()
	file, err := os.Open(repository + "/.dockerignore")
	require.NoError(t, err)
	defer file.Close()
	var patterns []*regexp.Regexp
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		require.NotContains(t, line, "!", "exceptions are not understood here")
		pattern := regexp.QuoteMeta(line)
		pattern = strings.ReplaceAll(pattern, `\*\*/`, `(.*/)?`)
		pattern = strings.ReplaceAll(pattern, `\*`, `[^/]*`)
		patterns = append(patterns, regexp.MustCompile(`^`+pattern+`(/.*)?$`))
	}
	require.NoError(t, lines.Err())
	return func(path string) bool {
		return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(path) })
	}
}

// What .dockerignore leaves is enough to build the node, and holds no secret.
func TestDockerignore(t *testing.T) {
	ignored := dockerIgnore(t)
	needed := sourcesOf(t, "./cmd/node")
	require.Contains(t, needed, "cmd/node/main.go")
	require.Contains(t, needed, "cmd/node/api/openapi.yaml", "embedded files too")
	for _, path := range append(needed, "go.mod", "go.sum") {
		require.False(t, ignored(path), "%s is needed", path)
	}
	for _, path := range []string{".git", ".git/config", "examples/deploy/compose/credentials/clients/app/client.nk", "x/secrets/tokens", "a.key", "deep/er/b.pem",
		"leasehold-data/leases.db", "cmd/node/main_test.go", "node.test"} {
		require.True(t, ignored(path), "%s must not be sent", path)
	}
}

// sourcesOf lists the files of this module that a package is built from.
func sourcesOf(t *testing.T, pkg string) (files []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,Module,GoFiles,CgoFiles,CFiles,HFiles,SFiles,EmbedFiles", pkg)
	cmd.Dir = repository
	out, err := cmd.Output()
	require.NoError(t, err)
	root, err := filepath.Abs(repository)
	require.NoError(t, err)
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p struct {
			Dir                                                   string
			Module                                                *struct{ Main bool }
			GoFiles, CgoFiles, CFiles, HFiles, SFiles, EmbedFiles []string
		}
		require.NoError(t, d.Decode(&p))
		if p.Module == nil || !p.Module.Main {
			continue
		}
		folder, err := filepath.Rel(root, p.Dir)
		require.NoError(t, err)
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.CFiles, p.HFiles, p.SFiles, p.EmbedFiles) {
			path := filepath.ToSlash(filepath.Join(folder, name))
			require.True(t, fs.ValidPath(path))
			files = append(files, path)
		}
	}
	return files
}
