# Written by `make stub` from the rooms and the registry of questions.

from privod.client import (
    Client as Client,
)
from privod.client import (
    connect as connect,
)
from privod.curator import (
    ROLES as ROLES,
)
from privod.curator import (
    Answer as Answer,
)
from privod.curator import (
    BudgetState as BudgetState,
)
from privod.curator import (
    Charge as Charge,
)
from privod.curator import (
    Curator as Curator,
)
from privod.curator import (
    DataSet as DataSet,
)
from privod.curator import (
    Entry as Entry,
)
from privod.curator import (
    Price as Price,
)
from privod.curator import (
    PricedCharge as PricedCharge,
)
from privod.curator import (
    Role as Role,
)
from privod.curator import (
    Token as Token,
)
from privod.curator import (
    TokenStore as TokenStore,
)
from privod.curator import (
    Total as Total,
)
from privod.curator import (
    Verification as Verification,
)
from privod.curator import (
    backup as backup,
)
from privod.curator import (
    migrate as migrate,
)
from privod.data import (
    Categorical as Categorical,
)
from privod.data import (
    Column as Column,
)
from privod.data import (
    Domain as Domain,
)
from privod.data import (
    Numeric as Numeric,
)
from privod.data import (
    Table as Table,
)
from privod.data import (
    read as read,
)
from privod.errors import (
    AlreadyExists as AlreadyExists,
)
from privod.errors import (
    AnswerFailed as AnswerFailed,
)
from privod.errors import (
    BudgetExceeded as BudgetExceeded,
)
from privod.errors import (
    InvalidData as InvalidData,
)
from privod.errors import (
    InvalidParameter as InvalidParameter,
)
from privod.errors import (
    LedgerDamaged as LedgerDamaged,
)
from privod.errors import (
    LimitReached as LimitReached,
)
from privod.errors import (
    NeedsConfirmation as NeedsConfirmation,
)
from privod.errors import (
    NoPromise as NoPromise,
)
from privod.errors import (
    NotAllowed as NotAllowed,
)
from privod.errors import (
    NotFound as NotFound,
)
from privod.errors import (
    PrivodError as PrivodError,
)
from privod.errors import (
    ProtocolAborted as ProtocolAborted,
)
from privod.errors import (
    SeededRelease as SeededRelease,
)
from privod.errors import (
    Unavailable as Unavailable,
)
from privod.estimators.grid_knn import (
    GridKnnDetector as GridKnnDetector,
)
from privod.estimators.hashed import (
    HashedDetector as HashedDetector,
)
from privod.estimators.marginals import (
    MarginalDetector as MarginalDetector,
)
from privod.joint.question import (
    JointOutliers as JointOutliers,
)
from privod.joint.run import (
    JointAnswer as JointAnswer,
)
from privod.joint.run import (
    rehearse as rehearse,
)
from privod.outliers.contexts.contexts import (
    Context as Context,
)
from privod.outliers.crowds.anomalies import (
    edits_by_search as edits_by_search,
)
from privod.outliers.crowds.anomalies import (
    is_regular as is_regular,
)
from privod.outliers.crowds.anomalies import (
    least_edit_margin as least_edit_margin,
)
from privod.outliers.crowds.anomalies import (
    record_privacy as record_privacy,
)
from privod.privacy import (
    AddRemove as AddRemove,
)
from privod.privacy import (
    Adjacency as Adjacency,
)
from privod.privacy import (
    Guarantee as Guarantee,
)
from privod.privacy import (
    InCrowd as InCrowd,
)
from privod.privacy import (
    Loss as Loss,
)
from privod.privacy import (
    Number as Number,
)
from privod.privacy import (
    Replace as Replace,
)
from privod.privacy import (
    SameContexts as SameContexts,
)
from privod.privacy import (
    Secrecy as Secrecy,
)
from privod.privacy import (
    adjacency_from_json as adjacency_from_json,
)
from privod.privacy import (
    decimal_text as decimal_text,
)
from privod.privacy import (
    exact as exact,
)
from privod.privacy import (
    in_parallel as in_parallel,
)
from privod.privacy import (
    positive as positive,
)
from privod.queries import (
    QUERIES as QUERIES,
)
from privod.queries import (
    Query as Query,
)
from privod.queries import (
    Release as Release,
)
from privod.queries.anomaly_labels import (
    AnomalyLabels as AnomalyLabels,
)
from privod.queries.anomaly_labels import (
    answer_by_edits as answer_by_edits,
)
from privod.queries.bounds import (
    PrivateBounds as PrivateBounds,
)
from privod.queries.grid_knn.query import (
    GridKnn as GridKnn,
)
from privod.queries.grid_knn.release import (
    NoisyGrid as NoisyGrid,
)
from privod.queries.histogram import (
    Histogram as Histogram,
)
from privod.queries.histogram import (
    NoisyCounts as NoisyCounts,
)
from privod.queries.lookahead import (
    LookaheadCount as LookaheadCount,
)
from privod.queries.marginals.query import (
    MarginalHistograms as MarginalHistograms,
)
from privod.queries.marginals.release import (
    NoisyMarginals as NoisyMarginals,
)
from privod.queries.outlier_context.query import (
    OutlierContext as OutlierContext,
)
from privod.queries.outlier_count import (
    OutlierCount as OutlierCount,
)
from privod.queries.subspaces import (
    OutlierSubspaces as OutlierSubspaces,
)

__version__: str
__all__: list[str]
ROOMS: tuple[str, ...]

def public_names() -> dict[str, str]: ...
