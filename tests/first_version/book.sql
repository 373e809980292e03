BEGIN TRANSACTION;
CREATE TABLE books (
            number INTEGER PRIMARY KEY,
            root TEXT NOT NULL,
            adjacency TEXT NOT NULL,
            budget_epsilon TEXT NOT NULL,
            budget_delta TEXT NOT NULL,
            spent_epsilon TEXT NOT NULL,
            spent_delta TEXT NOT NULL,
            UNIQUE (root, adjacency));
INSERT INTO "books" VALUES(2,'people','{"name":"add-remove"}','10','0','2/5','0');
INSERT INTO "books" VALUES(5,'people','{"columns":["age"],"crowd":5,"name":"in-crowd","radius":0.0}','1/2','0','1/2','0');
INSERT INTO "books" VALUES(13,'both','{"name":"add-remove"}','2','0','1/10','0');
INSERT INTO "books" VALUES(14,'both','{"name":"replace"}','2','0','9/10','0');
CREATE TABLE datasets (
            name TEXT PRIMARY KEY,
            entry INTEGER NOT NULL UNIQUE,
            root TEXT NOT NULL,
            continues TEXT,
            domain TEXT NOT NULL,
            registered TEXT NOT NULL,
            folder TEXT NOT NULL,
            seal TEXT NOT NULL);
INSERT INTO "datasets" VALUES('people',1,'people',NULL,'{"columns":[{"high":120.0,"low":0.0,"name":"age"}]}','2026-11-16T01:56:22.391650Z','efd2e626115a8c468912752052dbdb97','5b5d1112c928c2ccae314003c92e0191a8319327a3d2102a03afc3c47cee832a');
INSERT INTO "datasets" VALUES('both',12,'both',NULL,'{"columns":[{"high":120.0,"low":0.0,"name":"age"}]}','2026-11-16T01:56:22.683939Z','a072cc97ff95bec939cc9cf9d6834b82','2c10b3ee9f81a7a986fecf99c56b55f7db01e99cde64ea372d25f162d0eae7eb');
CREATE TABLE entries (
            number INTEGER PRIMARY KEY,
            time TEXT NOT NULL,
            kind TEXT NOT NULL,
            dataset TEXT NOT NULL,
            book INTEGER,
            adjacency TEXT,
            epsilon TEXT,
            delta TEXT,
            query TEXT,
            asked_by TEXT NOT NULL,
            ask INTEGER,
            request TEXT,
            digest TEXT,
            previous TEXT NOT NULL,
            hash TEXT NOT NULL);
INSERT INTO "entries" VALUES(1,'2026-11-16T01:56:22.392058Z','register','people',NULL,NULL,NULL,NULL,NULL,'owner',NULL,NULL,'141080672cac5c8560fdb183971dceaa113b9a279c31fefbdc52628c5a809766','','33032fbde5cd6df175e45711e66167824626341fc2ede340212a1068c61b95ac');
INSERT INTO "entries" VALUES(2,'2026-11-16T01:56:22.404937Z','open','people',2,'{"name":"add-remove"}','10','0',NULL,'owner',NULL,NULL,NULL,'33032fbde5cd6df175e45711e66167824626341fc2ede340212a1068c61b95ac','4a83cc1ccabfe4155ee82eb3e058ea5afa09ff6eb21526608d0317a82e850552');
INSERT INTO "entries" VALUES(3,'2026-11-16T01:56:22.419250Z','charge','people',2,'{"name":"add-remove"}','1/5','0','{"adjacency":{"name":"add-remove"},"bins":3,"columns":["age"],"epsilon":"1/5","name":"histogram-1"}','owner',3,'r1',NULL,'4a83cc1ccabfe4155ee82eb3e058ea5afa09ff6eb21526608d0317a82e850552','6379266a0163c29089083bb7c5d339412aa9ca32902ae72f10224458456623bd');
INSERT INTO "entries" VALUES(4,'2026-11-16T01:56:22.419250Z','release','people',NULL,NULL,NULL,NULL,'{"adjacency":{"name":"add-remove"},"bins":3,"columns":["age"],"epsilon":"1/5","name":"histogram-1"}','owner',3,NULL,'bfafe0334bef9a894000e082a2e24b48577e43109be59c63b3af76cf7764e7f1','6379266a0163c29089083bb7c5d339412aa9ca32902ae72f10224458456623bd','ffdc34b11be4d152b023ce30d07d9eb7b3280157d10c1d8856ad39ab2f1b307a');
INSERT INTO "entries" VALUES(5,'2026-11-16T01:56:22.584591Z','open','people',5,'{"columns":["age"],"crowd":5,"name":"in-crowd","radius":0.0}','1/2','0',NULL,'owner',NULL,NULL,NULL,'ffdc34b11be4d152b023ce30d07d9eb7b3280157d10c1d8856ad39ab2f1b307a','7032d78de38fab0a5df3ae10a00a7783be0942475bb6ab7178f4645e86c640ba');
INSERT INTO "entries" VALUES(6,'2026-11-16T01:56:22.584874Z','carry','people',5,'{"columns":["age"],"crowd":5,"name":"in-crowd","radius":0.0}','1/5','0',NULL,'owner',NULL,NULL,NULL,'7032d78de38fab0a5df3ae10a00a7783be0942475bb6ab7178f4645e86c640ba','4f28f7e51e89526f6b7ef074d5e82df7130f33fa5c3e60179ff0ea0f1733226b');
INSERT INTO "entries" VALUES(7,'2026-11-16T01:56:22.601953Z','charge','people',5,'{"columns":["age"],"crowd":5,"name":"in-crowd","radius":0.0}','1/10','0','{"columns":["age"],"edit_margin":1,"epsilon":"1/10","max_crowd":5,"name":"lookahead-count-1","radius":0.0,"record":[3.0]}','owner',7,NULL,NULL,'4f28f7e51e89526f6b7ef074d5e82df7130f33fa5c3e60179ff0ea0f1733226b','6a89e05f841ede28f2ac85785dd2bbc339c1eff1debc28f1b4e850c50722b2f3');
INSERT INTO "entries" VALUES(8,'2026-11-16T01:56:22.601953Z','release','people',NULL,NULL,NULL,NULL,'{"columns":["age"],"edit_margin":1,"epsilon":"1/10","max_crowd":5,"name":"lookahead-count-1","radius":0.0,"record":[3.0]}','owner',7,NULL,'5e77592857d38d3005591f19534b2ba753cdf0204f38aad992df7d55a78e9477','6a89e05f841ede28f2ac85785dd2bbc339c1eff1debc28f1b4e850c50722b2f3','0661d1e5623016592689e01286aadfafab68be60879837436f25128293e4c046');
INSERT INTO "entries" VALUES(9,'2026-11-16T01:56:22.650392Z','charge','people',2,'{"name":"add-remove"}','1/5','0','{"adjacency":{"name":"add-remove"},"bins":4,"columns":["age"],"epsilon":"1/5","name":"histogram-1"}','Ada',9,NULL,NULL,'0661d1e5623016592689e01286aadfafab68be60879837436f25128293e4c046','aebc367f9a66bd960f738b7d1ea429ec52d4665dbc60fc77c1f6095d6a74828b');
INSERT INTO "entries" VALUES(10,'2026-11-16T01:56:22.650683Z','charge','people',5,'{"columns":["age"],"crowd":5,"name":"in-crowd","radius":0.0}','1/5','0','{"adjacency":{"name":"add-remove"},"bins":4,"columns":["age"],"epsilon":"1/5","name":"histogram-1"}','Ada',9,NULL,NULL,'aebc367f9a66bd960f738b7d1ea429ec52d4665dbc60fc77c1f6095d6a74828b','707adebdcb7f2531fd70cd3b4a8558b87476abab24f0eddef5ce026e8183f575');
INSERT INTO "entries" VALUES(11,'2026-11-16T01:56:22.650392Z','release','people',NULL,NULL,NULL,NULL,'{"adjacency":{"name":"add-remove"},"bins":4,"columns":["age"],"epsilon":"1/5","name":"histogram-1"}','Ada',9,NULL,'ba2a4510ed469f949307c6c5dce6902f0ae42cd4636c105118cb24df7b1dc5d6','707adebdcb7f2531fd70cd3b4a8558b87476abab24f0eddef5ce026e8183f575','0b618a81c9af78ee7e01be904521a801abb550d94398bd707642541ad423adec');
INSERT INTO "entries" VALUES(12,'2026-11-16T01:56:22.684109Z','register','both',NULL,NULL,NULL,NULL,NULL,'owner',NULL,NULL,'b0697eeb98552fdb23dce3e49db0e0831a714712fdb98a770c338e813a277b0d','0b618a81c9af78ee7e01be904521a801abb550d94398bd707642541ad423adec','a8bc991de0153f2bccf2229b161a820c24e0adaac9468e9776719e2c3a8d189c');
INSERT INTO "entries" VALUES(13,'2026-11-16T01:56:22.685106Z','open','both',13,'{"name":"add-remove"}','2','0',NULL,'owner',NULL,NULL,NULL,'a8bc991de0153f2bccf2229b161a820c24e0adaac9468e9776719e2c3a8d189c','d290c91bab2dde0a926f6b10801128a5a81f7b964834d3d59f7bbb32be171a09');
INSERT INTO "entries" VALUES(14,'2026-11-16T01:56:22.686221Z','open','both',14,'{"name":"replace"}','2','0',NULL,'owner',NULL,NULL,NULL,'d290c91bab2dde0a926f6b10801128a5a81f7b964834d3d59f7bbb32be171a09','4c3623bb310ce31f17c6bf07486ba8a4a92d345c2a7c8be2b284e5ab9f8ded47');
INSERT INTO "entries" VALUES(15,'2026-11-16T01:56:22.693207Z','charge','both',14,'{"name":"replace"}','1/5','0','{"adjacency":{"name":"replace"},"bins":4,"columns":["age"],"epsilon":"1/5","name":"histogram-1"}','owner',15,NULL,NULL,'4c3623bb310ce31f17c6bf07486ba8a4a92d345c2a7c8be2b284e5ab9f8ded47','1be7a9393e4e2c2f5edb87e5a2af19b894e5409ca7c0fcef22dedfa451a7e2af');
INSERT INTO "entries" VALUES(16,'2026-11-16T01:56:22.693207Z','release','both',NULL,NULL,NULL,NULL,'{"adjacency":{"name":"replace"},"bins":4,"columns":["age"],"epsilon":"1/5","name":"histogram-1"}','owner',15,NULL,'6322792a7e8292148ee4e503b0e0d442a71d7faa020465783382d6b0e8e93490','1be7a9393e4e2c2f5edb87e5a2af19b894e5409ca7c0fcef22dedfa451a7e2af','5b19cb1e4b0f62e4701923b65dcfd542655e9047839a4e94510e87b3d0756143');
INSERT INTO "entries" VALUES(17,'2026-11-16T01:56:22.717489Z','charge','both',14,'{"name":"replace"}','1/2','0','{"adjacency":{"name":"replace"},"at_least_zero":false,"columns":["age"],"delta":"0","epsilon":"1/2","max_crowd":3,"name":"outlier-count-1","noise":"auto","radius":1.0}','owner',17,NULL,NULL,'5b19cb1e4b0f62e4701923b65dcfd542655e9047839a4e94510e87b3d0756143','07518d769336f06477cbbdf018e70ec3762b8c30d40572857dad0e19a4910aeb');
INSERT INTO "entries" VALUES(18,'2026-11-16T01:56:22.717489Z','release','both',NULL,NULL,NULL,NULL,'{"adjacency":{"name":"replace"},"at_least_zero":false,"columns":["age"],"delta":"0","epsilon":"1/2","max_crowd":3,"name":"outlier-count-1","noise":"auto","radius":1.0}','owner',17,NULL,'544b7801205047519cff7d44f7fee8907c1d09119e19a719d9005f3aec52264c','07518d769336f06477cbbdf018e70ec3762b8c30d40572857dad0e19a4910aeb','70a467c416a86fadb765eb37f6c33be993482c46ec31932202793f59862c8408');
INSERT INTO "entries" VALUES(19,'2026-11-16T01:58:45.665369Z','charge','both',13,'{"name":"add-remove"}','1/10','0','{"guarantee":{"adjacency":{"name":"add-remove"},"loss":{"delta":"0","epsilon":"1/10"}},"name":"elsewhere","reason":"told in a talk"}','owner',19,NULL,NULL,'70a467c416a86fadb765eb37f6c33be993482c46ec31932202793f59862c8408','f902da5fcb1de7903c487ddfa017b95c1cfe589e1b5939c85b9cf09006c25294');
INSERT INTO "entries" VALUES(20,'2026-11-16T01:58:45.665944Z','charge','both',14,'{"name":"replace"}','1/5','0','{"guarantee":{"adjacency":{"name":"add-remove"},"loss":{"delta":"0","epsilon":"1/10"}},"name":"elsewhere","reason":"told in a talk"}','owner',19,NULL,NULL,'f902da5fcb1de7903c487ddfa017b95c1cfe589e1b5939c85b9cf09006c25294','6d2e994232620929274bc09f450ad6c3900e834be5ec989def105a41fd2003a6');
CREATE TABLE head (length INTEGER NOT NULL, hash TEXT NOT NULL, moved_to TEXT);
INSERT INTO "head" VALUES(20,'6d2e994232620929274bc09f450ad6c3900e834be5ec989def105a41fd2003a6',NULL);
CREATE TABLE releases (
            entry INTEGER PRIMARY KEY,
            question TEXT NOT NULL UNIQUE,
            dataset TEXT NOT NULL,
            release TEXT NOT NULL);
INSERT INTO "releases" VALUES(4,'9b3e00cf917857e41e8ac8a2fea19f2f91225991b5fb114a0c39370723ab6b15','people','{"guarantee":{"adjacency":{"name":"add-remove"},"loss":{"delta":"0","epsilon":"1/5"}},"query":{"adjacency":{"name":"add-remove"},"bins":3,"columns":["age"],"epsilon":"1/5","name":"histogram-1"},"seeded":false,"value":{"axes":[{"column":"age","edges":[0.0,40.0,80.0,120.0],"labels":["0 to 40","40 to 80","80 to 120"]}],"counts":[86,3,-4]}}');
INSERT INTO "releases" VALUES(8,'a217dcaa5dd25436f6881442f41ea2b8a195503063ca85072e2523e33fd31106','people','{"guarantee":{"adjacency":{"columns":["age"],"crowd":5,"name":"in-crowd","radius":0.0},"loss":{"delta":"0","epsilon":"1/10"}},"query":{"columns":["age"],"edit_margin":1,"epsilon":"1/10","max_crowd":5,"name":"lookahead-count-1","radius":0.0,"record":[3.0]},"seeded":false,"value":{"blurred":true,"count":9}}');
INSERT INTO "releases" VALUES(11,'12ff0ac1d760795706a84baeba336178152404c4212ea826cbb9eb1f4d67c76c','people','{"guarantee":{"adjacency":{"name":"add-remove"},"loss":{"delta":"0","epsilon":"1/5"}},"query":{"adjacency":{"name":"add-remove"},"bins":4,"columns":["age"],"epsilon":"1/5","name":"histogram-1"},"seeded":false,"value":{"axes":[{"column":"age","edges":[0.0,30.0,60.0,90.0,120.0],"labels":["0 to 30","30 to 60","60 to 90","90 to 120"]}],"counts":[98,10,0,9]}}');
INSERT INTO "releases" VALUES(16,'fbc55bc0939c4ad44b92bbf8277f121ddd7f2aa57867fb4ae6e587166f574698','both','{"guarantee":{"adjacency":{"name":"replace"},"loss":{"delta":"0","epsilon":"1/5"}},"query":{"adjacency":{"name":"replace"},"bins":4,"columns":["age"],"epsilon":"1/5","name":"histogram-1"},"seeded":false,"value":{"axes":[{"column":"age","edges":[0.0,30.0,60.0,90.0,120.0],"labels":["0 to 30","30 to 60","60 to 90","90 to 120"]}],"counts":[107,-6,-18,3]}}');
INSERT INTO "releases" VALUES(18,'45c946562a36c0bb63a62e31ec6d2e9d7f3be30fa6516dc1308a3f296ffbf5a6','both','{"guarantee":{"adjacency":{"name":"replace"},"loss":{"delta":"0","epsilon":"1/2"}},"query":{"adjacency":{"name":"replace"},"at_least_zero":false,"columns":["age"],"delta":"0","epsilon":"1/2","max_crowd":3,"name":"outlier-count-1","noise":"auto","radius":1.0},"seeded":false,"value":{"count":13,"n_columns":1,"n_records":null}}');
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO "schema_version" VALUES(1);
CREATE TABLE tokens (
            number INTEGER PRIMARY KEY,
            hash TEXT NOT NULL UNIQUE,
            role TEXT NOT NULL,
            dataset TEXT,
            label TEXT NOT NULL,
            created TEXT NOT NULL,
            revoked TEXT);
INSERT INTO "tokens" VALUES(1,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','analyst','people','Ada','2026-11-16T01:58:45.680228Z',NULL);
INSERT INTO "tokens" VALUES(2,'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','owner',NULL,'Olga','2026-11-16T01:58:45.681116Z','2026-11-16T01:58:45.719228Z');
CREATE INDEX entries_by_book ON entries (book);
CREATE INDEX entries_by_dataset ON entries (dataset);
CREATE UNIQUE INDEX entries_by_request ON entries (request);
CREATE INDEX releases_by_dataset ON releases (dataset);
CREATE TRIGGER entries_never_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the book is append-only'); END;
CREATE TRIGGER entries_never_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the book is append-only'); END;
CREATE TRIGGER releases_never_update BEFORE UPDATE ON releases BEGIN SELECT RAISE(ABORT, 'the book is append-only'); END;
CREATE TRIGGER releases_never_delete BEFORE DELETE ON releases BEGIN SELECT RAISE(ABORT, 'the book is append-only'); END;
COMMIT;
