package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/leasehold/leasehold/internal/smallfile"
)

// EnvPrefix begins the name of each environment variable: --state-root is LEASEHOLD_STATE_ROOT.
const EnvPrefix = "LEASEHOLD"

// file is a YAML file as a source of kong. It gives way to flags (kong sees to that) and to the
// environment (Resolve sees to that).
type file struct {
	path   string
	values map[string]any
}

// BeforeResolve is kong's hook: it loads the file that --config or LEASEHOLD_CONFIG names, as a
// source for the flags of the same command.
func (s *Stores) BeforeResolve(ctx *kong.Context) error {
	path := os.Getenv(EnvPrefix + "_CONFIG")
	for _, flag := range ctx.Flags() {
		if flag.Name == "config" {
			if given, ok := ctx.FlagValue(flag).(string); ok && given != "" {
				path = given
			}
		}
	}
	if path == "" {
		return nil
	}
	f, err := load(path)
	if err != nil {
		return err
	}
	ctx.AddResolver(f)
	return nil
}

func load(path string) (*file, error) {
	data, err := smallfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("config file: %w", err)
	}
	return parse(path, data)
}

// parse reads a file and refuses keys that name no setting.
func parse(path string, data []byte) (*file, error) {
	f := &file{path: path}
	fail := func(format string, args ...any) (*file, error) {
		return nil, fmt.Errorf("config file %s: %s", path, fmt.Sprintf(format, args...))
	}
	document, err := parser.ParseBytes(data, 0)
	if err != nil {
		return fail("%s", yaml.FormatError(err, false, false)) // without the lines around it, which may hold a password
	}
	if len(document.Docs) > 1 {
		return fail("has more than one document")
	}
	if len(document.Docs) == 1 && document.Docs[0].Body != nil {
		if err := yaml.NodeToValue(asText(document.Docs[0].Body), &f.values); err != nil {
			return fail("%s", yaml.FormatError(err, false, false))
		}
	}
	known := Names()
	var unknown []string
	for name, value := range f.values {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
			continue
		}
		switch value.(type) {
		case map[string]any, []any:
			if name != "orgs" {
				return fail("%s: must be a single value", name)
			}
		case nil:
			return fail("%s: has no value", name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fail("unknown settings: %s", strings.Join(unknown, ", "))
	}
	if err := f.orgs(); err != nil {
		return fail("%v", err)
	}
	return f, nil
}

// asText makes every number, boolean and the like the text that stands in the file. A setting gets what a flag would get: the node name
// 0x1F is not 31, nor a version 1.10 the number 1.1.
func asText(node ast.Node) ast.Node {
	switch n := node.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		t := n.GetToken()
		return ast.String(token.New(t.Value, t.Origin, t.Position))
	case *ast.MappingNode:
		for _, value := range n.Values {
			asText(value)
		}
	case *ast.MappingValueNode:
		n.Value = asText(n.Value)
		if key, ok := asText(n.Key).(ast.MapKeyNode); ok {
			n.Key = key
		}
	case *ast.SequenceNode:
		for i := range n.Values {
			n.Values[i] = asText(n.Values[i])
		}
	case *ast.AnchorNode:
		n.Value = asText(n.Value)
	case *ast.TagNode:
		n.Value = asText(n.Value)
	}
	return node
}

// orgs turns the section orgs into the value of --org-key.
func (f *file) orgs() error {
	if _, ok := f.values["orgs"]; !ok {
		return nil
	}
	orgs, ok := f.values["orgs"].(map[string]any)
	keys := map[string]any{}
	for name, value := range orgs {
		org, isMap := value.(map[string]any)
		file, isText := org["key_file"].(string)
		switch {
		case !isMap || len(org) > 1 || len(org) == 1 && !isText:
			ok = false
		case file == "":
			return fmt.Errorf("orgs.%s: has no key_file", name)
		}
		keys[name] = file
	}
	if !ok {
		return errors.New("orgs: must be a map from organizations to {key_file: FILE}")
	}
	f.values["orgs"] = keys
	return nil
}

// Names returns the names of all settings in a file, sorted.
func Names() []string {
	names := []string{"orgs"}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for i := range t.NumField() {
			name, options, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			switch {
			case options == "inline":
				add(t.Field(i).Type)
			case name != "-":
				names = append(names, name)
			}
		}
	}
	add(reflect.TypeFor[Config]())
	slices.Sort(names)
	return names
}

// Validate implements kong.Resolver; load has validated the file.
func (f *file) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (f *file) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, env := range flag.Envs {
		if _, ok := os.LookupEnv(env); ok {
			return nil, nil
		}
	}
	name := strings.ReplaceAll(flag.Name, "-", "_")
	if flag.Name == "org-key" {
		name = "orgs"
	}
	value, ok := f.values[name]
	if !ok {
		return nil, nil
	}
	if keys, ok := value.(map[string]any); ok {
		return keys, nil
	}
	return value, nil // a text, as of a flag: what a flag does not take, the file must not be able to set
}
