BEGIN TRANSACTION;
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
INSERT INTO "alembic_version" VALUES('0011');
CREATE TABLE allocations (
	entry INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	job_id TEXT NOT NULL, 
	user TEXT NOT NULL, 
	attempt BIGINT NOT NULL, 
	reserved BOOLEAN NOT NULL, 
	created_at FLOAT NOT NULL, 
	ended_at FLOAT, 
	placement TEXT NOT NULL, 
	gpu_info TEXT, 
	enforcement TEXT, 
	project TEXT, 
	queue TEXT, 
	mig_profile TEXT, 
	gpu_milli BIGINT, 
	lost_from FLOAT, 
	PRIMARY KEY (entry)
);
INSERT INTO "allocations" VALUES(6,'1.1','1','alice',1,0,1010.0,1100.5,'{"members":[{"node":"box","grants":[{"uuid":"GPU-0","share_milli":1000,"memory_mib":40960}],"cpu_milli":2000,"host_memory_mib":1024}]}','{"count":1,"indices":[0],"allocation_method":"pack","details":[{"index":0,"name":"NVIDIA A100","memory_free_mb":40000,"utilization_percent":3,"availability_score":0.75}]}','{"memory":"guarded","compute":"advisory"}','default','default',NULL,1000,NULL);
INSERT INTO "allocations" VALUES(13,'3.1','3','alice',1,0,1102.0,1206.0,'{"members":[{"node":"box","grants":[{"uuid":"GPU-1","share_milli":1000,"memory_mib":40960}],"cpu_milli":2000,"host_memory_mib":1024}]}',NULL,NULL,'default','default',NULL,1000,1200.0);
INSERT INTO "allocations" VALUES(22,'4.1','4','alice',1,0,1303.0,1304.0,'{"members":[{"node":"box","grants":[{"uuid":"GPU-0","share_milli":1000,"memory_mib":40960}],"cpu_milli":2000,"host_memory_mib":1024}]}',NULL,NULL,'default','default',NULL,1000,NULL);
INSERT INTO "allocations" VALUES(26,'4.2','4','alice',1,0,1310.0,1321.0,'{"members":[{"node":"box","grants":[{"uuid":"GPU-0","share_milli":1000,"memory_mib":40960}],"cpu_milli":2000,"host_memory_mib":1024}]}',NULL,NULL,'default','default',NULL,1000,NULL);
INSERT INTO "allocations" VALUES(32,'2.1','2','alice',1,0,1340.0,NULL,'{"members":[{"node":"box","grants":[{"uuid":"GPU-0","share_milli":1000,"memory_mib":40960}],"cpu_milli":2000,"host_memory_mib":1024}]}',NULL,NULL,'default','default',NULL,1000,NULL);
CREATE TABLE environments (
	digest TEXT NOT NULL, 
	variables TEXT NOT NULL, 
	PRIMARY KEY (digest)
);
INSERT INTO "environments" VALUES('49cf054c88d25db75660633bdd6e761e','[["HOME","/home/alice"]]');
CREATE TABLE experiments (
	id TEXT NOT NULL, 
	task_id TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	status TEXT NOT NULL, 
	objective_score FLOAT, 
	body TEXT NOT NULL, 
	metrics TEXT, 
	PRIMARY KEY (id)
);
CREATE TABLE jobs (
	sequence INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	user TEXT NOT NULL, 
	name TEXT NOT NULL, 
	phase TEXT NOT NULL, 
	array_id TEXT, 
	array_index BIGINT, 
	submitted_at FLOAT NOT NULL, 
	started_at FLOAT, 
	ended_at FLOAT, 
	exit_code BIGINT, 
	state TEXT NOT NULL, 
	environment TEXT, 
	spec TEXT NOT NULL, 
	PRIMARY KEY (sequence), 
	CONSTRAINT jobs_id UNIQUE (id)
);
INSERT INTO "jobs" VALUES(1,'1','alice','llama','SUCCEEDED',NULL,NULL,1001.0,1010.5,1100.0,0,'{"launches":1,"attempts":1,"allocation_id":"1.1","devices":["GPU-0"],"waited":[["resources",2.5]]}','49cf054c88d25db75660633bdd6e761e','{"user":"alice","command":["train","--lr","1e-4"],"name":"llama"}');
INSERT INTO "jobs" VALUES(2,'2','alice','llama','STOPPING',NULL,NULL,1002.0,1340.5,NULL,NULL,'{"launches":1,"attempts":1,"stop_reason":"CANCELLED","reason":"cancelled by bob","allocation_id":"2.1","devices":["GPU-0"]}','49cf054c88d25db75660633bdd6e761e','{"user":"alice","command":["train","--lr","1e-4"],"name":"llama","after":["ok:1"]}');
INSERT INTO "jobs" VALUES(3,'3','alice','llama','PENDING',NULL,NULL,1003.0,1103.0,NULL,NULL,'{"launches":1,"attempts":1,"devices":["GPU-1"],"eviction":{"rule":"priority","for_job_id":"4","reason":"job 4 is more urgent","at":1200.0,"allocation_id":"3.1","saves":true,"ran_s":102.0,"lost_s":5.0},"evictions":1,"lost_s":5.0}','49cf054c88d25db75660633bdd6e761e','{"user":"alice","command":["train","--lr","1e-4"],"name":"llama","checkpoint_signal":"USR1"}');
INSERT INTO "jobs" VALUES(4,'4','alice','llama','PENDING',NULL,NULL,1004.0,1310.5,1320.0,3,'{"launches":2,"attempts":1,"devices":["GPU-0"]}','49cf054c88d25db75660633bdd6e761e','{"user":"alice","command":["train","--lr","1e-4"],"name":"llama"}');
CREATE TABLE journal (
	sequence INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	job_id TEXT, 
	fact TEXT NOT NULL, 
	body TEXT NOT NULL, 
	environment TEXT, 
	spec TEXT, 
	PRIMARY KEY (sequence)
);
INSERT INTO "journal" VALUES(1,1001.0,'1','JobSubmitted','{"fact":"JobSubmitted","job":{"id":"1","sequence":1,"submitted_at":1001.0},"at":1001.0}','49cf054c88d25db75660633bdd6e761e','{"user":"alice","command":["train","--lr","1e-4"],"name":"llama"}');
INSERT INTO "journal" VALUES(2,1002.0,'2','JobSubmitted','{"fact":"JobSubmitted","job":{"id":"2","sequence":2,"submitted_at":1002.0,"waits_for":["1"]},"at":1002.0}','49cf054c88d25db75660633bdd6e761e','{"user":"alice","command":["train","--lr","1e-4"],"name":"llama","after":["ok:1"]}');
INSERT INTO "journal" VALUES(3,1003.0,'3','JobSubmitted','{"fact":"JobSubmitted","job":{"id":"3","sequence":3,"submitted_at":1003.0,"held":true},"at":1003.0}','49cf054c88d25db75660633bdd6e761e','{"user":"alice","command":["train","--lr","1e-4"],"name":"llama","checkpoint_signal":"USR1"}');
INSERT INTO "journal" VALUES(4,1004.0,'4','JobSubmitted','{"fact":"JobSubmitted","job":{"id":"4","sequence":4,"submitted_at":1004.0},"at":1004.0}','49cf054c88d25db75660633bdd6e761e','{"user":"alice","command":["train","--lr","1e-4"],"name":"llama"}');
INSERT INTO "journal" VALUES(5,1010.0,'1','JobChanged','{"fact":"JobChanged","job_id":"1","changes":{"phase":"STARTING","launches":1,"allocation_id":"1.1","devices":["GPU-0"],"eligible_at":null,"waited":[["resources",2.5]],"exit_code":null,"signal":null,"reason":null,"started_at":null,"ended_at":null},"at":1010.0}',NULL,NULL);
INSERT INTO "journal" VALUES(6,1010.0,'1','AllocationMade','{"fact":"AllocationMade","allocation":{"id":"1.1","job_id":"1","user":"alice","placement":{"members":[{"node":"box","grants":[{"uuid":"GPU-0","share_milli":1000,"memory_mib":40960}],"cpu_milli":2000,"host_memory_mib":1024}]},"created_at":1010.0,"gpu_info":{"count":1,"indices":[0],"allocation_method":"pack","details":[{"index":0,"name":"NVIDIA A100","memory_free_mb":40000,"utilization_percent":3,"availability_score":0.75}]},"enforcement":{"memory":"guarded","compute":"advisory"}},"at":1010.0}',NULL,NULL);
INSERT INTO "journal" VALUES(7,1011.0,'1','JobChanged','{"fact":"JobChanged","job_id":"1","changes":{"phase":"RUNNING","started_at":1010.5,"attempts":1,"launch_failures":0},"at":1011.0}',NULL,NULL);
INSERT INTO "journal" VALUES(8,1100.5,'1','JobChanged','{"fact":"JobChanged","job_id":"1","changes":{"phase":"SUCCEEDED","exit_code":0,"signal":null,"reason":null,"ended_at":1100.0,"started_at":1010.5,"attempts":1},"at":1100.5}',NULL,NULL);
INSERT INTO "journal" VALUES(9,1100.5,'1','AllocationEnded','{"fact":"AllocationEnded","allocation_id":"1.1","job_id":"1","at":1100.5}',NULL,NULL);
INSERT INTO "journal" VALUES(10,1100.5,'2','JobChanged','{"fact":"JobChanged","job_id":"2","changes":{"waits_for":[]},"at":1100.5}',NULL,NULL);
INSERT INTO "journal" VALUES(11,1101.0,'3','JobChanged','{"fact":"JobChanged","job_id":"3","changes":{"held":false},"at":1101.0}',NULL,NULL);
INSERT INTO "journal" VALUES(12,1102.0,'3','JobChanged','{"fact":"JobChanged","job_id":"3","changes":{"phase":"STARTING","launches":1,"allocation_id":"3.1","devices":["GPU-1"],"eligible_at":null,"waited":[],"exit_code":null,"signal":null,"reason":null,"started_at":null,"ended_at":null},"at":1102.0}',NULL,NULL);
INSERT INTO "journal" VALUES(13,1102.0,'3','AllocationMade','{"fact":"AllocationMade","allocation":{"id":"3.1","job_id":"3","user":"alice","placement":{"members":[{"node":"box","grants":[{"uuid":"GPU-1","share_milli":1000,"memory_mib":40960}],"cpu_milli":2000,"host_memory_mib":1024}]},"created_at":1102.0},"at":1102.0}',NULL,NULL);
INSERT INTO "journal" VALUES(14,1103.0,'3','JobChanged','{"fact":"JobChanged","job_id":"3","changes":{"phase":"RUNNING","started_at":1103.0,"attempts":1,"launch_failures":0},"at":1103.0}',NULL,NULL);
INSERT INTO "journal" VALUES(15,1200.0,'3','JobChanged','{"fact":"JobChanged","job_id":"3","changes":{"phase":"STOPPING","stop_reason":"PENDING","reason":"job 4 is more urgent","eviction":{"rule":"priority","for_job_id":"4","reason":"job 4 is more urgent","at":1200.0,"allocation_id":"3.1","saves":true}},"at":1200.0}',NULL,NULL);
INSERT INTO "journal" VALUES(16,1206.0,'3','JobChanged','{"fact":"JobChanged","job_id":"3","changes":{"phase":"PENDING","allocation_id":null,"stop_reason":null,"reason":null,"attempts":1,"eviction":{"rule":"priority","for_job_id":"4","reason":"job 4 is more urgent","at":1200.0,"allocation_id":"3.1","saves":true,"ran_s":102.0,"lost_s":5.0},"evictions":1,"lost_s":5.0},"at":1206.0}',NULL,NULL);
INSERT INTO "journal" VALUES(17,1206.0,'3','AllocationEnded','{"fact":"AllocationEnded","allocation_id":"3.1","job_id":"3","at":1206.0,"lost_from":1200.0}',NULL,NULL);
INSERT INTO "journal" VALUES(18,1300.0,NULL,'DeviceCordoned','{"fact":"DeviceCordoned","uuid":"GPU-0","reason":"fan is loud","by":"root","at":1300.0}',NULL,NULL);
INSERT INTO "journal" VALUES(19,1301.0,NULL,'DeviceCordoned','{"fact":"DeviceCordoned","uuid":"GPU-1","reason":"xid 79","by":"root","at":1301.0}',NULL,NULL);
INSERT INTO "journal" VALUES(20,1302.0,NULL,'DeviceUncordoned','{"fact":"DeviceUncordoned","uuid":"GPU-0","by":"root","at":1302.0}',NULL,NULL);
INSERT INTO "journal" VALUES(21,1303.0,'4','JobChanged','{"fact":"JobChanged","job_id":"4","changes":{"phase":"STARTING","launches":1,"allocation_id":"4.1","devices":["GPU-0"],"eligible_at":null,"waited":[],"exit_code":null,"signal":null,"reason":null,"started_at":null,"ended_at":null},"at":1303.0}',NULL,NULL);
INSERT INTO "journal" VALUES(22,1303.0,'4','AllocationMade','{"fact":"AllocationMade","allocation":{"id":"4.1","job_id":"4","user":"alice","placement":{"members":[{"node":"box","grants":[{"uuid":"GPU-0","share_milli":1000,"memory_mib":40960}],"cpu_milli":2000,"host_memory_mib":1024}]},"created_at":1303.0},"at":1303.0}',NULL,NULL);
INSERT INTO "journal" VALUES(23,1304.0,'4','JobChanged','{"fact":"JobChanged","job_id":"4","changes":{"phase":"PENDING","allocation_id":null,"stop_reason":null,"reason":"no memory for a fork","launch_failures":1,"eligible_at":1305.0},"at":1304.0}',NULL,NULL);
INSERT INTO "journal" VALUES(24,1304.0,'4','AllocationEnded','{"fact":"AllocationEnded","allocation_id":"4.1","job_id":"4","at":1304.0}',NULL,NULL);
INSERT INTO "journal" VALUES(25,1310.0,'4','JobChanged','{"fact":"JobChanged","job_id":"4","changes":{"phase":"STARTING","launches":2,"allocation_id":"4.2","devices":["GPU-0"],"eligible_at":null,"waited":[],"exit_code":null,"signal":null,"reason":null,"started_at":null,"ended_at":null},"at":1310.0}',NULL,NULL);
INSERT INTO "journal" VALUES(26,1310.0,'4','AllocationMade','{"fact":"AllocationMade","allocation":{"id":"4.2","job_id":"4","user":"alice","placement":{"members":[{"node":"box","grants":[{"uuid":"GPU-0","share_milli":1000,"memory_mib":40960}],"cpu_milli":2000,"host_memory_mib":1024}]},"created_at":1310.0},"at":1310.0}',NULL,NULL);
INSERT INTO "journal" VALUES(27,1311.0,'4','JobChanged','{"fact":"JobChanged","job_id":"4","changes":{"phase":"RUNNING","started_at":1310.5,"attempts":1,"launch_failures":0},"at":1311.0}',NULL,NULL);
INSERT INTO "journal" VALUES(28,1321.0,'4','JobChanged','{"fact":"JobChanged","job_id":"4","changes":{"phase":"FAILED","exit_code":3,"signal":null,"reason":null,"ended_at":1320.0,"started_at":1310.5,"attempts":1},"at":1321.0}',NULL,NULL);
INSERT INTO "journal" VALUES(29,1321.0,'4','AllocationEnded','{"fact":"AllocationEnded","allocation_id":"4.2","job_id":"4","at":1321.0}',NULL,NULL);
INSERT INTO "journal" VALUES(30,1330.0,'4','JobRequeued','{"fact":"JobRequeued","job":{"id":"4","sequence":4,"submitted_at":1004.0,"launches":2,"attempts":1,"exit_code":3,"started_at":1310.5,"ended_at":1320.0,"devices":["GPU-0"]},"at":1330.0}','49cf054c88d25db75660633bdd6e761e','{"user":"alice","command":["train","--lr","1e-4"],"name":"llama"}');
INSERT INTO "journal" VALUES(31,1340.0,'2','JobChanged','{"fact":"JobChanged","job_id":"2","changes":{"phase":"STARTING","launches":1,"allocation_id":"2.1","devices":["GPU-0"],"eligible_at":null,"waited":[],"exit_code":null,"signal":null,"reason":null,"started_at":null,"ended_at":null},"at":1340.0}',NULL,NULL);
INSERT INTO "journal" VALUES(32,1340.0,'2','AllocationMade','{"fact":"AllocationMade","allocation":{"id":"2.1","job_id":"2","user":"alice","placement":{"members":[{"node":"box","grants":[{"uuid":"GPU-0","share_milli":1000,"memory_mib":40960}],"cpu_milli":2000,"host_memory_mib":1024}]},"created_at":1340.0},"at":1340.0}',NULL,NULL);
INSERT INTO "journal" VALUES(33,1341.0,'2','JobChanged','{"fact":"JobChanged","job_id":"2","changes":{"phase":"RUNNING","started_at":1340.5,"attempts":1,"launch_failures":0},"at":1341.0}',NULL,NULL);
INSERT INTO "journal" VALUES(34,1350.0,'2','JobChanged','{"fact":"JobChanged","job_id":"2","changes":{"phase":"STOPPING","stop_reason":"CANCELLED","reason":"cancelled by bob"},"at":1350.0}',NULL,NULL);
CREATE TABLE latest_facts (
	subject TEXT NOT NULL, 
	entry INTEGER NOT NULL, 
	PRIMARY KEY (subject)
);
INSERT INTO "latest_facts" VALUES('cordon of device GPU-0',20);
INSERT INTO "latest_facts" VALUES('cordon of device GPU-1',19);
CREATE TABLE meta (
	name TEXT NOT NULL, 
	value BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "meta" VALUES('next_id',5);
CREATE TABLE tokens (
	id INTEGER NOT NULL, 
	digest TEXT NOT NULL, 
	user TEXT NOT NULL, 
	uid BIGINT NOT NULL, 
	scope TEXT NOT NULL, 
	created_at FLOAT NOT NULL, 
	created_by TEXT NOT NULL, 
	expires_at FLOAT, 
	revoked_at FLOAT, 
	last_used_at FLOAT, 
	parent BIGINT, 
	PRIMARY KEY (id), 
	UNIQUE (digest)
);
CREATE INDEX jobs_by_name ON jobs (name, sequence);
CREATE INDEX jobs_by_phase ON jobs (phase, sequence);
CREATE INDEX jobs_by_array ON jobs (array_id, array_index);
CREATE INDEX jobs_by_user ON jobs (user, phase, sequence);
CREATE INDEX allocations_by_job ON allocations (job_id);
CREATE UNIQUE INDEX allocations_active ON allocations (id) WHERE ended_at IS NULL;
CREATE INDEX allocations_by_end ON allocations (ended_at);
CREATE INDEX journal_by_job ON journal (job_id, sequence);
CREATE INDEX jobs_by_submission ON jobs (submitted_at);
CREATE INDEX jobs_by_queue ON jobs (coalesce(json_extract(spec, '$.queue'), 'default'), sequence);
CREATE INDEX jobs_by_end ON jobs (ended_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX experiments_by_task ON experiments (task_id, number);
CREATE INDEX experiments_by_score ON experiments (task_id, status, objective_score);
COMMIT;
