-- The lease store of Leasehold, version 1. It is run in a schema of its own, with that schema and then
-- pg_temp as the search path, which every function keeps. The rules of the protocol that a record must obey
-- stand here as triggers, and not only in the functions that the nodes call, so that no program with access
-- to the tables can grant an epoch twice.

CREATE TABLE store (
	id smallint PRIMARY KEY CHECK (id = 1),
	version integer NOT NULL,
	keep_renewals bigint NOT NULL CHECK (keep_renewals >= 0),
	deployment text COLLATE "C" NOT NULL
);

-- Rows are updated in place again and again: room in the pages lets that happen without touching an index.
CREATE TABLE leases (
	key text COLLATE "C" NOT NULL PRIMARY KEY,
	owner text COLLATE "C" NOT NULL CHECK (owner <> ''),
	epoch bigint NOT NULL CHECK (epoch >= 1),
	ttl_ms bigint NOT NULL CHECK (ttl_ms BETWEEN 100 AND 3600000),
	end_ms bigint NOT NULL,
	floor bigint NOT NULL CHECK (floor >= 0 AND floor <= epoch),
	seq bigint NOT NULL CHECK (seq >= 1),
	op text NOT NULL CHECK (op IN ('acquire', 'renew', 'release', 'forget', 'lineage', 'reseed')),
	at_ms bigint NOT NULL,
	lineage bigint NOT NULL CHECK (lineage >= 0 AND lineage <= epoch),
	CONSTRAINT leases_end CHECK (end_ms - at_ms BETWEEN 0 AND 3600000)
) WITH (fillfactor = 50);

CREATE TABLE trail (
	key text COLLATE "C" NOT NULL,
	seq bigint NOT NULL,
	op text NOT NULL,
	owner text COLLATE "C" NOT NULL,
	epoch bigint NOT NULL,
	ttl_ms bigint NOT NULL,
	end_ms bigint NOT NULL,
	floor bigint NOT NULL,
	at_ms bigint NOT NULL,
	lineage bigint NOT NULL,
	PRIMARY KEY (key, seq)
);

CREATE INDEX leases_forgotten ON leases (key) WHERE floor > 0;
CREATE INDEX trail_renewals ON trail (key, seq) WHERE op = 'renew';

CREATE FUNCTION refuse_statement() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
	RAISE 'leasehold: % of % is refused', lower(TG_OP), TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;

CREATE FUNCTION store_rules() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
	IF OLD.deployment <> '' AND NEW.deployment <> OLD.deployment THEN
		RAISE 'leasehold: the store belongs to another deployment' USING ERRCODE = 'check_violation';
	END IF;
	RETURN NEW;
END $$;

CREATE FUNCTION leases_rules() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
	broken text;
BEGIN
	IF TG_OP = 'INSERT' THEN
		IF NEW.seq <> 1 OR NEW.op <> 'reseed' AND (NEW.epoch <> 1 OR NEW.floor <> 0 OR NEW.lineage <> 0 OR NEW.op <> 'acquire') THEN
			broken := 'a record begins once, with epoch 1';
		END IF;
	ELSIF NEW.op = 'reseed' AND NEW.epoch <= OLD.epoch THEN
		broken := 'a reseed raises the epoch';
	ELSIF NEW.op <> 'reseed' AND NEW.epoch <> OLD.epoch + (NEW.op = 'acquire')::int THEN
		broken := 'an epoch moves by one, when the lease is granted';
	ELSIF NEW.key <> OLD.key OR (NEW.owner <> OLD.owner AND NEW.epoch = OLD.epoch) THEN
		broken := 'an epoch has one key and one owner';
	ELSIF NEW.floor < OLD.floor THEN
		broken := 'a floor never goes down';
	ELSIF NEW.lineage < OLD.lineage OR (NEW.lineage <> OLD.lineage AND NEW.op NOT IN ('lineage', 'reseed')) THEN
		broken := 'a lineage is marked, and never unmarked';
	ELSIF NEW.seq <> OLD.seq + 1 OR NEW.at_ms < OLD.at_ms THEN
		broken := 'every change of a record is a new entry of its trail';
	END IF;
	-- Of a store that has lost records: nobody holds the lease then.
	IF NEW.op = 'reseed' AND (NEW.owner <> 'lease-reseed' OR NEW.end_ms <> NEW.at_ms) THEN
		broken := 'a reseed leaves a lease that is over';
	END IF;
	IF broken IS NOT NULL THEN
		RAISE 'leasehold: %', broken USING ERRCODE = 'check_violation';
	END IF;
	RETURN NEW;
END $$;

CREATE FUNCTION leases_changed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
	INSERT INTO trail VALUES (NEW.key, NEW.seq, NEW.op, NEW.owner, NEW.epoch, NEW.ttl_ms, NEW.end_ms, NEW.floor, NEW.at_ms, NEW.lineage);
	RETURN NULL;
END $$;

CREATE FUNCTION trail_rules() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
	keep bigint;
BEGIN
	IF TG_OP = 'INSERT' THEN
		IF NOT EXISTS (SELECT FROM leases WHERE key = NEW.key AND seq = NEW.seq AND op = NEW.op AND owner = NEW.owner
			AND epoch = NEW.epoch AND ttl_ms = NEW.ttl_ms AND end_ms = NEW.end_ms AND floor = NEW.floor AND at_ms = NEW.at_ms
			AND lineage = NEW.lineage) THEN
			RAISE 'leasehold: an entry of the trail is the record as it was written' USING ERRCODE = 'check_violation';
		END IF;
		RETURN NEW;
	END IF;
	-- Renewals, and nothing else, may be trimmed, and only in a store that was told to.
	SELECT keep_renewals INTO STRICT keep FROM store;
	IF OLD.op <> 'renew' OR keep = 0 OR OLD.seq > (SELECT seq FROM leases WHERE key = OLD.key) - keep THEN
		RAISE 'leasehold: the trail is append-only' USING ERRCODE = 'check_violation';
	END IF;
	RETURN OLD;
END $$;

-- ALWAYS: also in a session that replays a replication (session_replication_role).
CREATE TRIGGER store_rules BEFORE UPDATE ON store FOR EACH ROW EXECUTE FUNCTION store_rules();
CREATE TRIGGER store_delete BEFORE DELETE ON store FOR EACH ROW EXECUTE FUNCTION refuse_statement();
CREATE TRIGGER store_truncate BEFORE TRUNCATE ON store FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement();
CREATE TRIGGER leases_rules BEFORE INSERT OR UPDATE ON leases FOR EACH ROW EXECUTE FUNCTION leases_rules();
CREATE TRIGGER leases_delete BEFORE DELETE ON leases FOR EACH ROW EXECUTE FUNCTION refuse_statement();
CREATE TRIGGER leases_truncate BEFORE TRUNCATE ON leases FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement();
CREATE TRIGGER leases_changed AFTER INSERT OR UPDATE ON leases FOR EACH ROW EXECUTE FUNCTION leases_changed();
CREATE TRIGGER trail_rules BEFORE INSERT OR DELETE ON trail FOR EACH ROW EXECUTE FUNCTION trail_rules();
CREATE TRIGGER trail_update BEFORE UPDATE ON trail FOR EACH ROW EXECUTE FUNCTION refuse_statement();
CREATE TRIGGER trail_truncate BEFORE TRUNCATE ON trail FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement();
ALTER TABLE store ENABLE ALWAYS TRIGGER store_rules, ENABLE ALWAYS TRIGGER store_delete, ENABLE ALWAYS TRIGGER store_truncate;
ALTER TABLE leases ENABLE ALWAYS TRIGGER leases_rules, ENABLE ALWAYS TRIGGER leases_delete,
	ENABLE ALWAYS TRIGGER leases_truncate, ENABLE ALWAYS TRIGGER leases_changed;
ALTER TABLE trail ENABLE ALWAYS TRIGGER trail_rules, ENABLE ALWAYS TRIGGER trail_update, ENABLE ALWAYS TRIGGER trail_truncate;

-- What the nodes call. Each function is one transaction at one reading of the clock, taken after the row is
-- locked, and never earlier than the newest time in the record: for each key, time does not go back.

CREATE TYPE answer AS (
	verdict text,
	now_ms bigint,
	owner text,
	epoch bigint,
	ttl_ms bigint,
	end_ms bigint,
	floor bigint,
	lineage bigint
);

CREATE FUNCTION clock_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
	$$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

CREATE FUNCTION lease_acquire(p_key text, p_owner text, p_ttl_ms bigint) RETURNS answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
	l leases;
	t bigint;
BEGIN
	SELECT * INTO l FROM leases WHERE key = p_key FOR UPDATE;
	IF NOT FOUND THEN
		t := clock_ms();
		INSERT INTO leases VALUES (p_key, p_owner, 1, p_ttl_ms, t + p_ttl_ms, 0, 1, 'acquire', t, 0)
			ON CONFLICT DO NOTHING RETURNING * INTO l;
		IF FOUND THEN
			RETURN ('granted', t, l.owner, l.epoch, l.ttl_ms, l.end_ms, l.floor, l.lineage)::answer;
		END IF;
		SELECT * INTO STRICT l FROM leases WHERE key = p_key FOR UPDATE;
	END IF;
	t := greatest(clock_ms(), l.at_ms);
	IF l.end_ms > t THEN
		RETURN ('held', t, l.owner, l.epoch, l.ttl_ms, l.end_ms, l.floor, l.lineage)::answer;
	END IF;
	UPDATE leases SET owner = p_owner, epoch = epoch + 1, ttl_ms = p_ttl_ms, end_ms = t + p_ttl_ms, seq = seq + 1, op = 'acquire', at_ms = t
		WHERE key = p_key RETURNING * INTO STRICT l;
	RETURN ('granted', t, l.owner, l.epoch, l.ttl_ms, l.end_ms, l.floor, l.lineage)::answer;
END $$;

-- A change by the holder of an unexpired lease: renew, release, forget, or mark a lineage.
CREATE FUNCTION lease_change(p_key text, p_owner text, p_epoch bigint, p_op text, p_ttl_ms bigint) RETURNS answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
	l leases;
	t bigint;
	keep bigint;
	verdict text := 'granted';
BEGIN
	SELECT * INTO l FROM leases WHERE key = p_key FOR UPDATE;
	IF NOT FOUND THEN
		RETURN ('unknown', clock_ms(), '', 0, 0, 0, 0, 0)::answer;
	END IF;
	t := greatest(clock_ms(), l.at_ms);
	IF l.epoch <> p_epoch THEN
		verdict := 'epoch';
	ELSIF l.owner <> p_owner THEN
		verdict := 'owner';
	ELSIF l.end_ms <= t THEN
		verdict := 'over';
	ELSE
		CASE p_op
			WHEN 'renew' THEN
				l.ttl_ms := p_ttl_ms;
				l.end_ms := greatest(l.end_ms, t + p_ttl_ms); -- never takes back time that was promised before
			WHEN 'release' THEN
				l.end_ms := t;
			WHEN 'forget' THEN
				l.floor := l.epoch;
			WHEN 'lineage' THEN
				IF l.lineage <= l.floor THEN
					l.lineage := l.epoch;
				END IF;
		END CASE;
		UPDATE leases SET ttl_ms = l.ttl_ms, end_ms = l.end_ms, floor = l.floor, lineage = l.lineage, seq = l.seq + 1, op = p_op, at_ms = t WHERE key = p_key;
		IF p_op = 'renew' THEN
			SELECT keep_renewals INTO STRICT keep FROM store;
			IF keep > 0 AND l.seq >= keep THEN
				DELETE FROM trail WHERE key = p_key AND op = 'renew' AND seq <= l.seq + 1 - keep;
			END IF;
		END IF;
	END IF;
	RETURN (verdict, t, l.owner, l.epoch, l.ttl_ms, l.end_ms, l.floor, l.lineage)::answer;
END $$;

-- Many renewals, [[key, owner, epoch, ttl_ms], …], in the order of their keys, so that two batches cannot
-- wait for each other. The answer is [[place in the request, counted from 1, [verdict, …]], …].
CREATE FUNCTION lease_renew_many(p_renewals jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
	r record;
	a answer;
	answers jsonb[] := '{}';
BEGIN
	FOR r IN
		SELECT ordinality AS n, value ->> 0 AS key, value ->> 1 AS owner, (value ->> 2)::bigint AS epoch, (value ->> 3)::bigint AS ttl_ms
		FROM jsonb_array_elements(p_renewals) WITH ORDINALITY ORDER BY (value ->> 0) COLLATE "C", ordinality
	LOOP
		a := lease_change(r.key, r.owner, r.epoch, 'renew', r.ttl_ms);
		answers := array_append(answers, jsonb_build_array(r.n,
			jsonb_build_array(a.verdict, a.now_ms, a.owner, a.epoch, a.ttl_ms, a.end_ms, a.floor, a.lineage)));
	END LOOP;
	RETURN to_jsonb(answers);
END $$;

-- The store gets the identity of its deployment, unless it has one, and answers with the one that it has.
CREATE FUNCTION deployment_set(p_identity text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
	UPDATE store SET deployment = p_identity WHERE deployment = '';
	RETURN (SELECT deployment FROM store);
END $$;

REVOKE ALL ON FUNCTION refuse_statement(), store_rules(), leases_rules(), leases_changed(), trail_rules(), clock_ms(),
	lease_acquire(text, text, bigint), lease_change(text, text, bigint, text, bigint), lease_renew_many(jsonb),
	deployment_set(text) FROM PUBLIC;
