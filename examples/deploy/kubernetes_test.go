package deploy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// object is a Kubernetes object. at returns what a path leads to, such as "spec.template.spec.containers.0.image".
type object map[string]any

func (o object) at(t *testing.T, path string) any {
	t.Helper()
	v, ok := o.find(path)
	require.True(t, ok, "there is no %s", path)
	return v
}

func (o object) find(path string) (any, bool) {
	var v any = map[string]any(o)
	for step := range strings.SplitSeq(path, ".") {
		switch node := v.(type) {
		case map[string]any:
			next, ok := node[step]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(node) {
				return nil, false
			}
			v = node[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func (o object) number(t *testing.T, path string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(fmt.Sprint(o.at(t, path)), 10, 64)
	require.NoError(t, err, path)
	return n
}

// list returns the entries of a list of maps.
func (o object) list(t *testing.T, path string) (out []object) {
	t.Helper()
	list, ok := o.at(t, path).([]any)
	require.True(t, ok, path)
	for _, v := range list {
		m, ok := v.(map[string]any)
		require.True(t, ok, path)
		out = append(out, m)
	}
	return out
}

// called returns the entry with a name.
func called(t *testing.T, list []object, name string) object {
	t.Helper()
	i := slices.IndexFunc(list, func(o object) bool { return o["name"] == name })
	require.GreaterOrEqual(t, i, 0, "there is no %s", name)
	return list[i]
}

// readObjects reads the documents of a file. A key that is there twice is an error.
func readObjects(t *testing.T, file string) (out []object) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err, file)
		out = append(out, o)
	}
}

// manifests are the objects of kustomization.yaml, by kind and name.
type manifests struct {
	home      string
	kustomize object
	objects   map[string]object
}

func readManifests(t *testing.T, home string) manifests {
	t.Helper()
	m := manifests{home: home, objects: map[string]object{}}
	m.kustomize = readObjects(t, filepath.Join(home, "kustomization.yaml"))[0]
	listed := map[string]bool{"kustomization.yaml": true, "node.yaml": true}
	for _, file := range m.kustomize.at(t, "resources").([]any) {
		listed[file.(string)] = true
		for _, o := range readObjects(t, filepath.Join(home, file.(string))) {
			m.objects[fmt.Sprint(o.at(t, "kind"), "/", o.at(t, "metadata.name"))] = o
		}
	}
	files, err := filepath.Glob(filepath.Join(home, "*.yaml"))
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, listed[filepath.Base(f)], "%s is in no kustomization", f)
	}
	return m
}

// files returns the files of a generated ConfigMap or Secret, by key.
func (m manifests) files(t *testing.T, generator, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, file := range called(t, m.kustomize.list(t, generator), name).at(t, "files").([]any) {
		out[filepath.Base(file.(string))] = filepath.Join(m.home, file.(string))
	}
	return out
}

func TestKubernetes(t *testing.T) {
	m := readManifests(t, secrets(t, "kubernetes", []string{"leasehold"}, []string{"*.leasehold-peers"}))
	kinds := map[string]string{
		"StatefulSet/leasehold": "apps/v1", "Service/leasehold": "v1", "Service/leasehold-peers": "v1",
		"PodDisruptionBudget/leasehold": "policy/v1", "NetworkPolicy/leasehold": "networking.k8s.io/v1",
	}
	require.Len(t, m.objects, len(kinds))
	for name, version := range kinds {
		require.Contains(t, m.objects, name)
		require.Equal(t, version, m.objects[name].at(t, "apiVersion"), name)
	}
	set := m.objects["StatefulSet/leasehold"]
	container := set.list(t, "spec.template.spec.containers")[0]
	r := m.mounts(t, set, container)
	e := m.nodeConfig(t, r, container)

	t.Run("a cluster forms", func(t *testing.T) {
		require.Equal(t, "Parallel", set.at(t, "spec.podManagementPolicy"))
		require.Equal(t, "RollingUpdate", set.at(t, "spec.updateStrategy.type"))
		require.True(t, e.Embedded)
		peers := m.objects["Service/leasehold-peers"]
		require.Equal(t, "None", peers.at(t, "spec.clusterIP"))
		require.Equal(t, true, peers.at(t, "spec.publishNotReadyAddresses"))
		require.Equal(t, "leasehold-peers", set.at(t, "spec.serviceName"))
		var routes []string
		for i := range set.number(t, "spec.replicas") {
			routes = append(routes, fmt.Sprintf("leasehold-%d.leasehold-peers%s", i, portOf(t, e.NATSClusterListen)))
		}
		require.Equal(t, routes, strings.Split(e.NATSRoutes, ","))
		env := container.list(t, "env")
		require.Equal(t, "metadata.name", called(t, env, "LEASEHOLD_NODE_NAME").at(t, "valueFrom.fieldRef.fieldPath"))
	})
	t.Run("ports", func(t *testing.T) { m.ports(t, container, e) })
	t.Run("selectors", func(t *testing.T) { m.selectors(t, set) })
	t.Run("probes and the end", func(t *testing.T) { probesAndTheEnd(t, set, container, e) })
	t.Run("security", func(t *testing.T) { security(t, set, container) })
	t.Run("resources", func(t *testing.T) {
		limit, ok := strings.CutSuffix(container.at(t, "resources.limits.memory").(string), "Gi")
		require.True(t, ok)
		gib, err := strconv.ParseInt(limit, 10, 64)
		require.NoError(t, err)
		require.Less(t, e.memory(), gib<<30)
		container.at(t, "resources.requests.cpu")
		container.at(t, "resources.requests.memory")
		claim := called(t, []object{set.list(t, "spec.volumeClaimTemplates")[0].at(t, "metadata").(map[string]any)}, "data")
		require.NotNil(t, claim)
		require.Equal(t, "Retain", set.at(t, "spec.persistentVolumeClaimRetentionPolicy.whenDeleted"))
	})
	t.Run("one host at a time", func(t *testing.T) {
		require.EqualValues(t, 1, m.objects["PodDisruptionBudget/leasehold"].number(t, "spec.maxUnavailable"))
		apart := set.list(t, "spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution")
		require.Equal(t, "kubernetes.io/hostname", apart[0].at(t, "topologyKey"))
		require.Equal(t, "topology.kubernetes.io/zone", set.at(t, "spec.template.spec.topologySpreadConstraints.0.topologyKey"))
	})
}

func probesAndTheEnd(t *testing.T, set, container object, e effective) {
	for probe, path := range map[string]string{"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"} {
		require.Equal(t, path, container.at(t, probe+".httpGet.path"), "liveness must not depend on the stores")
		require.Equal(t, "http", container.at(t, probe+".httpGet.port"))
	}
	// The API's own test has both routes; here only that they exist, under these names.
	api, err := os.ReadFile(repository + "/cmd/node/api/openapi.yaml")
	require.NoError(t, err)
	require.Contains(t, string(api), "/healthz:")
	require.Contains(t, string(api), "/readyz:")
	starting := time.Duration(container.number(t, "startupProbe.periodSeconds")*container.number(t, "startupProbe.failureThreshold")) * time.Second
	require.Greater(t, starting, e.StartTimeout, "a node that waits for the others is not killed")

	hook := time.Duration(container.number(t, "lifecycle.preStop.sleep.seconds")) * time.Second
	unready := time.Duration(container.number(t, "readinessProbe.periodSeconds")) * time.Second
	require.GreaterOrEqual(t, hook, unready)
	grace := time.Duration(set.number(t, "spec.template.spec.terminationGracePeriodSeconds")) * time.Second
	require.Greater(t, grace, hook+e.ShutdownTimeout+10*time.Second, "the handoffs are not cut off")
	require.Less(t, e.ShutdownLinger, e.ShutdownTimeout)
}

func security(t *testing.T, set, container object) {
	pod := object(set.at(t, "spec.template.spec").(map[string]any))
	require.Equal(t, true, pod.at(t, "securityContext.runAsNonRoot"))
	user := fmt.Sprint(pod.at(t, "securityContext.runAsUser"), ":", pod.at(t, "securityContext.runAsGroup"))
	require.Equal(t, readDockerfile(t)[1].all("USER"), []string{user})
	require.Equal(t, pod.at(t, "securityContext.runAsGroup"), pod.at(t, "securityContext.fsGroup"), "it can read its secrets and write its volume")
	require.Equal(t, "RuntimeDefault", pod.at(t, "securityContext.seccompProfile.type"))
	require.Equal(t, false, pod.at(t, "automountServiceAccountToken"))
	require.Equal(t, false, pod.at(t, "enableServiceLinks"), "a service's variables begin with LEASEHOLD_ too")
	require.Equal(t, true, container.at(t, "securityContext.readOnlyRootFilesystem"))
	require.Equal(t, false, container.at(t, "securityContext.allowPrivilegeEscalation"))
	require.Equal(t, []any{"ALL"}, container.at(t, "securityContext.capabilities.drop"))
	require.NotContains(t, container.at(t, "image"), ":latest")
}

// ports wants the services, the policy, the container and the configuration to agree.
func (m manifests) ports(t *testing.T, container object, e effective) {
	names := map[string]string{}
	for _, p := range container.list(t, "ports") {
		names[p.at(t, "name").(string)] = ":" + fmt.Sprint(p.at(t, "containerPort"))
	}
	require.Equal(t, map[string]string{"http": portOf(t, e.Listen), "nats": portOf(t, e.NATSListen), "routes": portOf(t, e.NATSClusterListen)}, names)
	for service, want := range map[string][]string{"Service/leasehold": {"http", "nats"}, "Service/leasehold-peers": {"routes"}} {
		var have []string
		for _, p := range m.objects[service].list(t, "spec.ports") {
			have = append(have, p.at(t, "targetPort").(string))
			require.Equal(t, names[p.at(t, "targetPort").(string)], ":"+fmt.Sprint(p.at(t, "port")))
		}
		require.Equal(t, want, have)
	}
	policy := m.objects["NetworkPolicy/leasehold"]
	allowed := map[string]string{}
	for _, rule := range policy.list(t, "spec.ingress") {
		from := fmt.Sprint(rule.at(t, "from.0.podSelector.matchLabels"))
		for _, p := range rule.list(t, "ports") {
			allowed[p.at(t, "port").(string)] = from
		}
	}
	clients, nodes := "map[leasehold-client:true]", "map[app.kubernetes.io/name:leasehold]"
	require.Equal(t, map[string]string{"http": clients, "nats": clients, "routes": nodes}, allowed)
	require.ElementsMatch(t, []any{"Ingress", "Egress"}, policy.at(t, "spec.policyTypes"))
}

// selectors wants everything that chooses pods to choose those of the StatefulSet.
func (m manifests) selectors(t *testing.T, set object) {
	labels := set.at(t, "spec.template.metadata.labels")
	require.NotEmpty(t, labels)
	for name, path := range map[string]string{
		"StatefulSet/leasehold": "spec.selector.matchLabels", "Service/leasehold": "spec.selector", "Service/leasehold-peers": "spec.selector",
		"PodDisruptionBudget/leasehold": "spec.selector.matchLabels", "NetworkPolicy/leasehold": "spec.podSelector.matchLabels",
	} {
		require.Equal(t, labels, m.objects[name].at(t, path), name)
	}
	spec := "spec.template.spec."
	require.Equal(t, labels, set.at(t, spec+"affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.0.labelSelector.matchLabels"))
	require.Equal(t, labels, set.at(t, spec+"topologySpreadConstraints.0.labelSelector.matchLabels"))
}

// mounts lays out what the container sees. Every volume must be there, and every key of a ConfigMap or Secret.
func (m manifests) mounts(t *testing.T, set, container object) *rootFS {
	t.Helper()
	r := newRootFS(t)
	volumes := set.list(t, "spec.template.spec.volumes")
	claims := set.list(t, "spec.volumeClaimTemplates")
	for _, mount := range container.list(t, "volumeMounts") {
		name, target := mount.at(t, "name").(string), mount.at(t, "mountPath").(string)
		if name == claims[0].at(t, "metadata.name") {
			require.Equal(t, imageEnvironment(t)["LEASEHOLD_STATE_ROOT"], target)
			continue
		}
		v := called(t, volumes, name)
		require.Equal(t, true, mount.at(t, "readOnly"))
		sources := []object{v}
		if _, ok := v.find("projected"); ok {
			sources = v.list(t, "projected.sources")
		}
		for _, source := range sources {
			m.mount(t, r, source, target)
		}
	}
	return r
}

func (m manifests) mount(t *testing.T, r *rootFS, source object, target string) {
	t.Helper()
	files := map[string]string{}
	if name, ok := source.find("configMap.name"); ok {
		files = m.files(t, "configMapGenerator", name.(string))
	} else if name, ok := source.find("secret.secretName"); ok {
		files = m.files(t, "secretGenerator", name.(string))
	} else {
		all := m.files(t, "secretGenerator", source.at(t, "secret.name").(string))
		items := source.list(t, "secret.items")
		require.Len(t, items, len(all), "every key is mounted")
		for _, item := range items {
			require.Contains(t, all, item.at(t, "key"))
			files[item.at(t, "path").(string)] = all[item.at(t, "key").(string)]
		}
	}
	for path, file := range files {
		r.mount(file, filepath.Join(target, path))
	}
}

// nodeConfig runs `node config` with the arguments, the environment and the files of the container.
func (m manifests) nodeConfig(t *testing.T, r *rootFS, container object) effective {
	t.Helper()
	args := container.at(t, "args").([]any)
	require.Equal(t, "run", args[0])
	file, ok := strings.CutPrefix(args[1].(string), "--config=")
	require.True(t, ok)
	require.Len(t, args, 2)
	// The paths in the file are the container's: `node config` gets a copy with those of this machine.
	text, err := os.ReadFile(filepath.Join(r.root, file))
	require.NoError(t, err)
	environment := imageEnvironment(t)
	for name := range environment {
		require.NotContains(t, string(text), "\n"+strings.ToLower(strings.TrimPrefix(name, "LEASEHOLD_"))+":", "the environment would go before it")
	}
	for _, v := range container.list(t, "env") {
		environment[v.at(t, "name").(string)] = "leasehold-0"
	}
	requireKnown(t, environment)
	ours := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(ours, []byte(r.inside(string(text))), 0o600))
	return r.nodeConfig(container.at(t, "workingDir").(string), environment, "--config="+ours)
}
