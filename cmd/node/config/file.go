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
)

// EnvPrefix begins the name of each environment variable: --state-root is LEASEHOLD_STATE_ROOT.
const EnvPrefix = "LEASEHOLD"

// file is a YAML file as a source of kong. It gives way to flags (kong sees to that) and to the
// environment (Resolve sees to that).
type file struct {
	path   string
	values map[string]any
}

// orgEntry is one organization in the file.
type orgEntry struct {
	KeyFile string `yaml:"key_file"`
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
	data, err := os.ReadFile(path)
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
	if err := yaml.Unmarshal(data, &f.values); err != nil {
		return fail("%v", err)
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

// orgs turns the section orgs into the value of --org-key.
func (f *file) orgs() error {
	if _, ok := f.values["orgs"]; !ok {
		return nil
	}
	section, err := yaml.Marshal(f.values["orgs"])
	if err != nil {
		return err
	}
	var orgs map[string]orgEntry
	if err := yaml.UnmarshalWithOptions(section, &orgs, yaml.Strict()); err != nil {
		return errors.New("orgs: must be a map from organizations to {key_file: FILE}")
	}
	keys := map[string]any{}
	for name, org := range orgs {
		if org.KeyFile == "" {
			return fmt.Errorf("orgs.%s: has no key_file", name)
		}
		keys[name] = org.KeyFile
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
	// As the text of a flag: what a flag does not take, the file must not be able to set.
	return fmt.Sprint(value), nil
}
