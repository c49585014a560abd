DELIMITER ;;
-- The lease store of Leasehold, version 1, in a database of its own. The rules of the protocol that a
-- record must obey stand here as triggers, and not only in the procedures that the nodes call, so that no
-- program with access to the tables can grant an epoch twice. They say what must be true, and a NULL is not:
-- a session without a strict sql_mode would make it 0 after the trigger has looked. Text is VARBINARY:
-- compared byte by byte. Every statement can be run again: DDL is not transactional here, and the row of
-- the store, which is written last, says that all of it is there.

CREATE TABLE IF NOT EXISTS leases (
	`key` VARBINARY(128) NOT NULL PRIMARY KEY,
	owner VARBINARY(256) NOT NULL,
	epoch BIGINT NOT NULL,
	ttl_ms BIGINT NOT NULL,
	end_ms BIGINT NOT NULL,
	floor BIGINT NOT NULL,
	seq BIGINT NOT NULL,
	op VARBINARY(16) NOT NULL,
	at_ms BIGINT NOT NULL,
	lineage BIGINT NOT NULL,
	KEY leases_forgotten (floor, `key`)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;;

-- The foreign key has the server refuse TRUNCATE and DROP of leases.
CREATE TABLE IF NOT EXISTS trail (
	`key` VARBINARY(128) NOT NULL,
	seq BIGINT NOT NULL,
	op VARBINARY(16) NOT NULL,
	owner VARBINARY(256) NOT NULL,
	epoch BIGINT NOT NULL,
	ttl_ms BIGINT NOT NULL,
	end_ms BIGINT NOT NULL,
	floor BIGINT NOT NULL,
	at_ms BIGINT NOT NULL,
	lineage BIGINT NOT NULL,
	PRIMARY KEY (`key`, seq),
	KEY trail_op (`key`, op, seq),
	CONSTRAINT trail_of_lease FOREIGN KEY (`key`) REFERENCES leases (`key`) ON DELETE RESTRICT ON UPDATE RESTRICT
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;;

CREATE TABLE IF NOT EXISTS store (
	id TINYINT NOT NULL PRIMARY KEY,
	version INT NOT NULL,
	keep_renewals BIGINT NOT NULL,
	deployment VARBINARY(128) NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;;

CREATE OR REPLACE TRIGGER store_insert BEFORE INSERT ON store FOR EACH ROW
BEGIN
	IF NOT COALESCE(NEW.id = 1 AND NEW.version >= 1 AND NEW.keep_renewals >= 0, FALSE) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: there is one store';
	END IF;
END;;

CREATE OR REPLACE TRIGGER store_update BEFORE UPDATE ON store FOR EACH ROW
BEGIN
	IF NOT COALESCE(NEW.id = OLD.id AND NEW.version >= OLD.version AND NEW.keep_renewals >= 0, FALSE) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: there is one store';
	END IF;
	IF NOT COALESCE(OLD.deployment = '' OR NEW.deployment = OLD.deployment, FALSE) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: the store belongs to another deployment';
	END IF;
END;;

CREATE OR REPLACE TRIGGER store_delete BEFORE DELETE ON store FOR EACH ROW
	SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: the store row is never deleted';;

CREATE OR REPLACE TRIGGER leases_insert BEFORE INSERT ON leases FOR EACH ROW
BEGIN
	IF NOT COALESCE(NEW.seq = 1 AND (NEW.epoch = 1 AND NEW.floor = 0 AND NEW.lineage = 0 AND NEW.op = 'acquire'
		OR NEW.op = 'reseed' AND NEW.epoch >= 1 AND NEW.floor BETWEEN 0 AND NEW.epoch AND NEW.lineage BETWEEN 0 AND NEW.epoch
			AND NEW.owner = 'lease-reseed' AND NEW.end_ms = NEW.at_ms), FALSE) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: a record begins once, with epoch 1';
	END IF;
	IF NOT COALESCE(NEW.`key` <> '' AND NEW.owner <> '' AND NEW.ttl_ms BETWEEN 100 AND 3600000 AND NEW.end_ms - NEW.at_ms BETWEEN 0 AND 3600000, FALSE) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: a value is out of range';
	END IF;
END;;

CREATE OR REPLACE TRIGGER leases_update BEFORE UPDATE ON leases FOR EACH ROW
BEGIN
	-- A reseed is of a store that has lost records: nobody holds the lease then.
	IF NOT COALESCE(NEW.epoch = OLD.epoch + (NEW.op = 'acquire') AND NEW.op <> 'reseed'
		OR NEW.op = 'reseed' AND NEW.epoch > OLD.epoch AND NEW.owner = 'lease-reseed' AND NEW.end_ms = NEW.at_ms, FALSE) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: an epoch moves by one, when the lease is granted';
	END IF;
	IF NOT COALESCE(NEW.`key` = OLD.`key` AND (NEW.owner = OLD.owner OR NEW.epoch > OLD.epoch), FALSE) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: an epoch has one key and one owner';
	END IF;
	IF NOT COALESCE(NEW.floor >= OLD.floor AND NEW.floor <= NEW.epoch, FALSE) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: a floor never goes down';
	END IF;
	IF NOT COALESCE(NEW.lineage <= NEW.epoch AND (NEW.lineage = OLD.lineage OR NEW.lineage > OLD.lineage AND NEW.op IN ('lineage', 'reseed')), FALSE) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: a lineage is marked, and never unmarked';
	END IF;
	IF NOT COALESCE(NEW.seq = OLD.seq + 1 AND NEW.at_ms >= OLD.at_ms, FALSE) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: every change of a record is a new entry of its trail';
	END IF;
	IF NOT COALESCE(NEW.owner <> '' AND NEW.op IN ('acquire', 'renew', 'release', 'forget', 'lineage', 'reseed')
		AND NEW.ttl_ms BETWEEN 100 AND 3600000 AND NEW.end_ms - NEW.at_ms BETWEEN 0 AND 3600000, FALSE) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: a value is out of range';
	END IF;
END;;

CREATE OR REPLACE TRIGGER leases_delete BEFORE DELETE ON leases FOR EACH ROW
	SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: a record is never deleted';;

CREATE OR REPLACE TRIGGER leases_inserted AFTER INSERT ON leases FOR EACH ROW
	INSERT INTO trail VALUES (NEW.`key`, NEW.seq, NEW.op, NEW.owner, NEW.epoch, NEW.ttl_ms, NEW.end_ms, NEW.floor, NEW.at_ms, NEW.lineage);;

CREATE OR REPLACE TRIGGER leases_updated AFTER UPDATE ON leases FOR EACH ROW
	INSERT INTO trail VALUES (NEW.`key`, NEW.seq, NEW.op, NEW.owner, NEW.epoch, NEW.ttl_ms, NEW.end_ms, NEW.floor, NEW.at_ms, NEW.lineage);;

CREATE OR REPLACE TRIGGER trail_insert BEFORE INSERT ON trail FOR EACH ROW
BEGIN
	IF NOT EXISTS (SELECT 1 FROM leases l WHERE l.`key` = NEW.`key` AND l.seq = NEW.seq AND l.op = NEW.op AND l.owner = NEW.owner
		AND l.epoch = NEW.epoch AND l.ttl_ms = NEW.ttl_ms AND l.end_ms = NEW.end_ms AND l.floor = NEW.floor AND l.at_ms = NEW.at_ms
		AND l.lineage = NEW.lineage) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: an entry of the trail is the record as it was written';
	END IF;
END;;

CREATE OR REPLACE TRIGGER trail_update BEFORE UPDATE ON trail FOR EACH ROW
	SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: the trail is append-only';;

-- Renewals, and nothing else, may be trimmed, and only in a store that was told to.
CREATE OR REPLACE TRIGGER trail_delete BEFORE DELETE ON trail FOR EACH ROW
BEGIN
	DECLARE v_keep BIGINT DEFAULT (SELECT keep_renewals FROM store);
	IF NOT COALESCE(OLD.op = 'renew' AND v_keep > 0 AND OLD.seq <= (SELECT l.seq FROM leases l WHERE l.`key` = OLD.`key`) - v_keep, FALSE) THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leasehold: the trail is append-only';
	END IF;
END;;

-- What the nodes call. Each of the public procedures is one transaction; the clock is read after the row is
-- locked, and is never earlier than the newest time in the record: for each key, time does not go back.
-- SYSDATE and not NOW: a session can set NOW. It is read with the session's time zone at UTC, where
-- no hour comes twice.

CREATE OR REPLACE PROCEDURE lease_read(IN p_key VARBINARY(128), OUT o_now BIGINT, OUT o_owner VARBINARY(256), OUT o_epoch BIGINT,
	OUT o_ttl BIGINT, OUT o_end BIGINT, OUT o_floor BIGINT, OUT o_lineage BIGINT, OUT o_seq BIGINT)
SQL SECURITY DEFINER
BEGIN
	DECLARE v_at BIGINT DEFAULT 0;
	SET o_epoch = 0;
	SELECT owner, epoch, ttl_ms, end_ms, floor, lineage, seq, at_ms INTO o_owner, o_epoch, o_ttl, o_end, o_floor, o_lineage, o_seq, v_at
		FROM leases WHERE `key` = p_key FOR UPDATE;
	SET o_now = GREATEST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000), v_at);
END;;

CREATE OR REPLACE PROCEDURE lease_step(IN p_key VARBINARY(128), IN p_owner VARBINARY(256), IN p_epoch BIGINT, IN p_op VARBINARY(16),
	IN p_ttl BIGINT, IN p_keep BIGINT, OUT o_verdict VARCHAR(16) CHARACTER SET utf8mb4, OUT o_now BIGINT, OUT o_owner VARBINARY(256), OUT o_epoch BIGINT,
	OUT o_ttl BIGINT, OUT o_end BIGINT, OUT o_floor BIGINT, OUT o_lineage BIGINT)
SQL SECURITY DEFINER
BEGIN
	DECLARE v_seq BIGINT;
	CALL lease_read(p_key, o_now, o_owner, o_epoch, o_ttl, o_end, o_floor, o_lineage, v_seq);
	IF o_epoch = 0 THEN
		SET o_verdict = 'unknown', o_owner = '', o_ttl = 0, o_end = 0, o_floor = 0, o_lineage = 0;
	ELSEIF o_epoch <> p_epoch THEN
		SET o_verdict = 'epoch';
	ELSEIF o_owner <> p_owner THEN
		SET o_verdict = 'owner';
	ELSEIF o_end <= o_now THEN
		SET o_verdict = 'over';
	ELSE
		SET o_verdict = 'granted';
		CASE p_op
			WHEN 'renew' THEN
				SET o_ttl = p_ttl, o_end = GREATEST(o_end, o_now + p_ttl); -- never takes back time that was promised before
			WHEN 'release' THEN
				SET o_end = o_now;
			WHEN 'forget' THEN
				SET o_floor = o_epoch;
			WHEN 'lineage' THEN
				SET o_lineage = IF(o_lineage > o_floor, o_lineage, o_epoch);
		END CASE;
		UPDATE leases SET ttl_ms = o_ttl, end_ms = o_end, floor = o_floor, lineage = o_lineage, seq = seq + 1, op = p_op, at_ms = o_now WHERE `key` = p_key;
		IF p_op = 'renew' AND p_keep > 0 AND v_seq >= p_keep THEN
			DELETE FROM trail WHERE `key` = p_key AND op = 'renew' AND seq <= v_seq + 1 - p_keep;
		END IF;
	END IF;
END;;

CREATE OR REPLACE PROCEDURE lease_acquire(IN p_key VARBINARY(128), IN p_owner VARBINARY(256), IN p_ttl BIGINT)
SQL SECURITY DEFINER
BEGIN
	DECLARE v_verdict VARCHAR(16) CHARACTER SET utf8mb4 DEFAULT 'granted';
	DECLARE v_raced, v_new BOOLEAN DEFAULT FALSE;
	DECLARE v_owner VARBINARY(256);
	DECLARE v_now, v_epoch, v_ttl, v_end, v_floor, v_lineage, v_seq BIGINT;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	SET time_zone = '+00:00';
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	CALL lease_read(p_key, v_now, v_owner, v_epoch, v_ttl, v_end, v_floor, v_lineage, v_seq);
	IF v_epoch = 0 THEN
		BEGIN
			DECLARE CONTINUE HANDLER FOR 1062 SET v_raced = TRUE; -- another session was first
			INSERT INTO leases VALUES (p_key, p_owner, 1, p_ttl, v_now + p_ttl, 0, 1, 'acquire', v_now, 0);
		END;
		IF v_raced THEN
			ROLLBACK; -- drops the lock that a duplicate leaves, on which two sessions would wait for each other
			SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
			START TRANSACTION;
			CALL lease_read(p_key, v_now, v_owner, v_epoch, v_ttl, v_end, v_floor, v_lineage, v_seq);
		ELSE
			SET v_new = TRUE, v_floor = 0, v_lineage = 0;
		END IF;
	END IF;
	IF NOT v_new AND v_end > v_now THEN
		SET v_verdict = 'held';
	ELSE
		IF NOT v_new THEN
			UPDATE leases SET owner = p_owner, epoch = v_epoch + 1, ttl_ms = p_ttl, end_ms = v_now + p_ttl, seq = seq + 1, op = 'acquire', at_ms = v_now
				WHERE `key` = p_key;
		END IF;
		SET v_owner = p_owner, v_epoch = v_epoch + 1, v_ttl = p_ttl, v_end = v_now + p_ttl;
	END IF;
	COMMIT;
	SELECT v_verdict, v_now, v_owner, v_epoch, v_ttl, v_end, v_floor, v_lineage;
END;;

CREATE OR REPLACE PROCEDURE lease_change(IN p_key VARBINARY(128), IN p_owner VARBINARY(256), IN p_epoch BIGINT, IN p_op VARBINARY(16), IN p_ttl BIGINT)
SQL SECURITY DEFINER
BEGIN
	DECLARE v_verdict VARCHAR(16) CHARACTER SET utf8mb4;
	DECLARE v_owner VARBINARY(256);
	DECLARE v_now, v_epoch, v_ttl, v_end, v_floor, v_lineage, v_keep BIGINT;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	SET time_zone = '+00:00';
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	SELECT keep_renewals INTO v_keep FROM store;
	CALL lease_step(p_key, p_owner, p_epoch, p_op, p_ttl, v_keep, v_verdict, v_now, v_owner, v_epoch, v_ttl, v_end, v_floor, v_lineage);
	COMMIT;
	SELECT v_verdict, v_now, v_owner, v_epoch, v_ttl, v_end, v_floor, v_lineage;
END;;

-- Many renewals, [[key, owner, epoch, ttl_ms], …], in the order of their keys, so that two batches cannot
-- wait for each other. The answer is [[place in the request, counted from 1, [verdict, …]], …].
CREATE OR REPLACE PROCEDURE lease_renew_many(IN p_renewals LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY DEFINER
BEGIN
	DECLARE v_verdict VARCHAR(16) CHARACTER SET utf8mb4;
	DECLARE v_owner VARBINARY(256);
	DECLARE v_now, v_epoch, v_ttl, v_end, v_floor, v_lineage, v_keep BIGINT;
	DECLARE v_answers LONGTEXT CHARACTER SET utf8mb4 DEFAULT '';
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	SET time_zone = '+00:00';
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	SELECT keep_renewals INTO v_keep FROM store;
	FOR r IN (SELECT j.n, j.k, j.o, j.e, j.t FROM JSON_TABLE(p_renewals, '$[*]' COLUMNS (n FOR ORDINALITY,
		k VARBINARY(128) PATH '$[0]', o VARBINARY(256) PATH '$[1]', e BIGINT PATH '$[2]', t BIGINT PATH '$[3]')) j ORDER BY j.k, j.n)
	DO
		CALL lease_step(r.k, r.o, r.e, 'renew', r.t, v_keep, v_verdict, v_now, v_owner, v_epoch, v_ttl, v_end, v_floor, v_lineage);
		-- JSON_ARRAY would make strings of the numbers.
		SET v_answers = CONCAT(v_answers, IF(v_answers = '', '', ','), '[', r.n, ',["', v_verdict, '",', v_now, ',',
			JSON_QUOTE(CONVERT(v_owner USING utf8mb4)), ',', v_epoch, ',', v_ttl, ',', v_end, ',', v_floor, ',', v_lineage, ']]');
	END FOR;
	COMMIT;
	SELECT CONCAT('[', v_answers, ']');
END;;

-- The store gets the identity of its deployment, unless it has one, and answers with the one that it has.
CREATE OR REPLACE PROCEDURE deployment_set(IN p_identity VARBINARY(128))
SQL SECURITY DEFINER
BEGIN
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	UPDATE store SET deployment = p_identity WHERE id = 1 AND deployment = '';
	SELECT deployment FROM store WHERE id = 1;
	COMMIT;
END;;

-- A description of all of this, one line for each object, for the check when a store is opened: a node may
-- not read the text of triggers and procedures by itself.
CREATE OR REPLACE PROCEDURE store_objects()
SQL SECURITY DEFINER READS SQL DATA
BEGIN
	SELECT CONCAT('table ', t.table_name, ' ', t.engine) AS line FROM information_schema.tables t
		WHERE t.table_schema = DATABASE()
	UNION ALL SELECT CONCAT('column ', c.table_name, '.', c.column_name, ' ', c.column_type, IF(c.is_nullable = 'NO', ' not null', ''),
		IF(c.extra = '', '', CONCAT(' ', c.extra)))
		FROM information_schema.columns c WHERE c.table_schema = DATABASE()
	UNION ALL SELECT CONCAT('index ', s.table_name, '.', s.index_name, '.', s.seq_in_index, ' ', s.column_name, IF(s.non_unique, '', ' unique'))
		FROM information_schema.statistics s WHERE s.table_schema = DATABASE()
	UNION ALL SELECT CONCAT('reference ', r.constraint_name, ' ', r.table_name, ' ', r.referenced_table_name, ' ', r.delete_rule, ' ', r.update_rule)
		FROM information_schema.referential_constraints r WHERE r.constraint_schema = DATABASE()
	UNION ALL SELECT CONCAT('trigger ', g.trigger_name, ' ', g.action_timing, ' ', g.event_manipulation, ' ', g.event_object_table, ' ',
		MD5(REPLACE(g.action_statement, '\r', '')), IF(FIND_IN_SET('STRICT_TRANS_TABLES', g.sql_mode), ' strict', ''))
		FROM information_schema.triggers g WHERE g.trigger_schema = DATABASE()
	UNION ALL SELECT CONCAT('routine ', p.routine_name, ' ', p.routine_type, ' ', p.security_type, ' ', MD5(REPLACE(p.routine_definition, '\r', '')),
		IF(FIND_IN_SET('STRICT_TRANS_TABLES', p.sql_mode), ' strict', ''))
		FROM information_schema.routines p WHERE p.routine_schema = DATABASE()
	UNION ALL SELECT CONCAT('parameter ', a.specific_name, '.', a.parameter_name, ' ', a.parameter_mode, ' ', a.dtd_identifier)
		FROM information_schema.parameters a WHERE a.specific_schema = DATABASE()
	UNION ALL SELECT CONCAT('event ', e.event_name) FROM information_schema.events e WHERE e.event_schema = DATABASE();
END;;
